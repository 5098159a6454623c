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
    private static final long BLOCK_BYTES = 128L << 20;

    private final Path table;
    private final byte[] paths;
    private final byte[] numbers;
    private final FileStatus[] files;
    private final long bytes;

    /** A plan is the paths, parted by zero bytes, and the size and time of change of each file. */
    public PlannedFiles(String table, byte[] paths, byte[] numbers) {
        this.table = pathOf(table);
        this.paths = paths;
        this.numbers = numbers;
        LongBuffer told = ByteBuffer.wrap(numbers).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer();
        String all = new String(paths, StandardCharsets.UTF_8);
        this.files = new FileStatus[told.remaining() / 2];
        Folder folder = null;
        long sum = 0;
        int begin = 0;
        for (int i = 0; i < files.length; i++) {
            int end = all.indexOf(END, begin);
            String path = end < 0 ? all.substring(begin) : all.substring(begin, end);
            begin = end + 1;
            if (folder == null || !folder.holds(path)) {
                folder = new Folder(path.substring(0, path.lastIndexOf('/') + 1));
            }
            long size = told.get();
            files[i] = new FileStatus(size, false, 1, BLOCK_BYTES, told.get(), folder.file(path));
            sum += size;
        }
        this.bytes = sum;
    }

    private static Path pathOf(String path) {
        return new Path("file:" + path);
    }

    /** Makes the paths of a folder's files, which takes Hadoop long because of what to escape. */
    private static final class Folder {
        private static final String PLAIN = "-_.=";

        private final String path;
        private final String escaped;

        private Folder(String path) {
            this.path = path;
            String uri = pathOf(path + PLAIN).toUri().toString();
            this.escaped = uri.substring(0, uri.length() - PLAIN.length());
        }

        private boolean holds(String file) {
            return file.lastIndexOf('/') == path.length() - 1 && file.startsWith(path);
        }

        private Path file(String file) {
            for (int i = path.length(); i < file.length(); i++) {
                char each = file.charAt(i);
                boolean plain = each >= 'a' && each <= 'z' || each >= 'A' && each <= 'Z'
                    || each >= '0' && each <= '9' || PLAIN.indexOf(each) >= 0;
                if (!plain) {
                    return pathOf(file);
                }
            }
            return new Path(URI.create(escaped + file.substring(path.length())));
        }
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
            && Arrays.equals(paths, ((PlannedFiles) other).paths)
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
                SparkSession spark, String schema, String table, byte[] paths, byte[] numbers) {
            // The files use the proleptic calendar, independent of the session's setting.
            Map options = new Map.Map1("datetimeRebaseMode", "CORRECTED");
            return spark.baseRelationToDataFrame(new HadoopFsRelation(
                new PlannedFiles(table, paths, numbers),
                new StructType(),
                (StructType) DataType.fromJson(schema),
                Option.empty(),
                new ParquetFileFormat(),
                new CaseInsensitiveMap(options),
                spark));
        }
    }
}
