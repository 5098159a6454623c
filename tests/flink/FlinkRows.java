import java.nio.file.Files;
import java.nio.file.Path;
import java.util.StringJoiner;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/** Runs the statements of a file as a stream, and prints each row that they give with its kind. */
public class FlinkRows {
    public static void main(String[] arguments) throws Exception {
        TableEnvironment tables =
                TableEnvironment.create(EnvironmentSettings.newInstance().inStreamingMode().build());
        tables.getConfig().set("table.exec.source.idle-timeout", "1 s");
        tables.getConfig().set("parallelism.default", "1");
        for (String statement : Files.readString(Path.of(arguments[0])).split(";")) {
            if (statement.isBlank()) {
                continue;
            }
            TableResult result = tables.executeSql(statement);
            if (!statement.strip().startsWith("SELECT")) {
                continue;
            }
            try (CloseableIterator<Row> rows = result.collect()) {
                while (rows.hasNext()) {
                    Row row = rows.next();
                    StringJoiner line = new StringJoiner("\t");
                    line.add(row.getKind().shortString());
                    for (int at = 0; at < row.getArity(); at++) {
                        line.add(String.valueOf(row.getField(at)));
                    }
                    System.out.println("row\t" + line);
                }
            }
        }
    }
}
