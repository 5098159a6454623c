package lakewright;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow$;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.List$;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/**
 * The files of one plan, as Spark asks for them; nothing is listed.
 *
 * Compiled by Janino, which knows no lambdas and no type inference.
 */
public final class PlannedFiles implements FileIndex {
    private static final String END = "\0";
    private static final int WORDS = 3;
    private static final long BLOCK_BYTES = 128L << 20;

    private final Path table;
    private final byte[] plan;
    private final FileStatus[] files;
    private final long bytes;

    /** A plan is the path, size and time of change of each file, each ended by a zero byte. */
    public PlannedFiles(String table, byte[] plan) {
        this.table = new Path(table);
        this.plan = plan;
        String[] words = new String(plan, StandardCharsets.UTF_8).split(END);
        this.files = new FileStatus[words.length / WORDS];
        long sum = 0;
        for (int i = 0; i < files.length; i++) {
            Path path = new Path(words[WORDS * i]);
            long size = Long.parseLong(words[WORDS * i + 1]);
            long changed = Long.parseLong(words[WORDS * i + 2]);
            files[i] = new FileStatus(size, false, 1, BLOCK_BYTES, changed, path);
            sum += size;
        }
        this.bytes = sum;
    }

    public Seq rootPaths() {
        return listOf(table);
    }

    /** All files: what Spark prunes by filters of metadata here, it filters again in the rows. */
    public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
        return listOf(PartitionDirectory.apply(InternalRow$.MODULE$.empty(), files));
    }

    public String[] inputFiles() {
        String[] paths = new String[files.length];
        for (int i = 0; i < files.length; i++) {
            paths[i] = files[i].getPath().toUri().toString();
        }
        return paths;
    }

    /** A plan stays as it is: what lies in the folders of its files is no part of it. */
    public void refresh() {
    }

    public long sizeInBytes() {
        return bytes;
    }

    public StructType partitionSchema() {
        return new StructType();
    }

    /** Spark reuses results of equal scans, so that other files must make another scan. */
    public boolean equals(Object other) {
        return other instanceof PlannedFiles
            && table.equals(((PlannedFiles) other).table)
            && Arrays.equals(plan, ((PlannedFiles) other).plan);
    }

    public int hashCode() {
        return Arrays.hashCode(plan);
    }

    private static Seq listOf(Object item) {
        return List$.MODULE$.empty().$colon$colon(item);
    }

    /** Makes DataFrames; Py4J can call an object of a loaded class, but not its constructor. */
    public static final class Reader {
        public Object read(SparkSession spark, String schema, String table, byte[] plan) {
            // The files use the proleptic calendar, independent of the session's setting.
            Map options = new Map.Map1("datetimeRebaseMode", "CORRECTED");
            return spark.baseRelationToDataFrame(new HadoopFsRelation(
                new PlannedFiles(table, plan),
                new StructType(),
                (StructType) DataType.fromJson(schema),
                Option.empty(),
                new ParquetFileFormat(),
                new CaseInsensitiveMap(options),
                spark));
        }
    }
}
