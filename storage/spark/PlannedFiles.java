package lakewright;

import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
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
    private static final int END = 0;
    private static final String ENDS = "\0\0";
    private static final String PLAIN = "-_.=";
    private static final long BLOCK_BYTES = 128L << 20;

    private final String base;
    private final Path table;
    private final byte[] names;
    private final byte[] numbers;
    private final long bytes;
    private FileStatus[] files;

    /**
     * A plan is the names of folders and of files in them, and each file's size and time of change.
     *
     * A zero byte ends each name but the last, and two of them a folder. All paths are below a base,
     * the start of their URIs.
     */
    public PlannedFiles(String base, String table, byte[] names, byte[] numbers) {
        this.base = base;
        this.table = pathOf(table);
        this.names = names;
        this.numbers = numbers;
        LongBuffer told = told();
        long sum = 0;
        for (int i = 0; i < told.limit(); i += 2) {
            sum += told.get(i);
        }
        this.bytes = sum;
    }

    /** Made when Spark asks for them, which it may never do. */
    private synchronized FileStatus[] files() {
        if (files != null) {
            return files;
        }
        LongBuffer told = told();
        FileStatus[] made = new FileStatus[told.limit() / 2];
        String all = new String(names, StandardCharsets.UTF_8) + ENDS;
        int at = 0;
        for (int i = 0; i < made.length; at++) {
            int end = all.indexOf(END, at);
            Folder folder = new Folder(all.substring(at, end) + "/");
            for (at = end + 1; (end = all.indexOf(END, at)) > at; at = end + 1) {
                Path path = folder.file(all.substring(at, end));
                long size = told.get();
                made[i++] = new FileStatus(size, false, 1, BLOCK_BYTES, told.get(), path);
            }
        }
        files = made;
        return made;
    }

    private LongBuffer told() {
        return ByteBuffer.wrap(numbers).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer();
    }

    private Path pathOf(String path) {
        return new Path(base + path);
    }

    /** Makes the paths of a folder's files, which takes Hadoop long because of what to escape. */
    private final class Folder {
        private final String path;
        private final String escaped;

        private Folder(String path) {
            this.path = path;
            String uri = pathOf(path + PLAIN).toUri().toString();
            this.escaped = uri.substring(0, uri.length() - PLAIN.length());
        }

        private Path file(String name) {
            for (int i = 0; i < name.length(); i++) {
                char each = name.charAt(i);
                boolean plain = each >= 'a' && each <= 'z' || each >= 'A' && each <= 'Z'
                    || each >= '0' && each <= '9' || PLAIN.indexOf(each) >= 0;
                if (!plain) {
                    return pathOf(path + name);
                }
            }
            return new Path(URI.create(escaped + name));
        }
    }

    public Seq rootPaths() {
        return listOf(table);
    }

    /** All files: what Spark prunes by filters of metadata here, it filters again in the rows. */
    public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
        return listOf(PartitionDirectory.apply(InternalRow$.MODULE$.empty(), files()));
    }

    public String[] inputFiles() {
        FileStatus[] all = files();
        String[] paths = new String[all.length];
        for (int i = 0; i < all.length; i++) {
            paths[i] = all[i].getPath().toUri().toString();
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
            && Arrays.equals(names, ((PlannedFiles) other).names)
            && Arrays.equals(numbers, ((PlannedFiles) other).numbers);
    }

    public int hashCode() {
        return Arrays.hashCode(numbers);
    }

    private static Seq listOf(Object item) {
        return List$.MODULE$.empty().$colon$colon(item);
    }

    /** Makes DataFrames; Py4J can call an object of a loaded class, but not its constructor. */
    public static final class Reader {
        public Object read(
                SparkSession spark, String schema, String base, String table, byte[] names,
                byte[] numbers) {
            // Files without a mark of Spark's use the proleptic calendar, and each of them counts,
            // whatever the session's settings are.
            Map options = new Map.Map4(
                "datetimeRebaseMode", "CORRECTED",
                "int96RebaseMode", "CORRECTED",
                "ignoreMissingFiles", "false",
                "ignoreCorruptFiles", "false");
            return spark.baseRelationToDataFrame(new HadoopFsRelation(
                new PlannedFiles(base, table, names, numbers),
                new StructType(),
                (StructType) DataType.fromJson(schema),
                Option.empty(),
                new ParquetFileFormat(),
                new CaseInsensitiveMap(options),
                spark));
        }
    }
}
