import java.nio.file.Files;
import java.nio.file.Path;
import java.util.StringJoiner;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/** Runs the statements of a file, and prints rows with their kinds: FILE, then name=value. */
public class FlinkStatements {
    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        for (int at = 1; at < arguments.length; at++) {
            String[] parts = arguments[at].split("=", 2);
            settings.setString(parts[0], parts[1]);
        }
        TableEnvironment environment =
                TableEnvironment.create(
                        EnvironmentSettings.newInstance().withConfiguration(settings).build());
        for (String text : Files.readString(Path.of(arguments[0])).split(";\\s*(\\n|$)")) {
            String statement = text.strip();
            if (statement.isEmpty()) {
                continue;
            }
            try {
                TableResult result = environment.executeSql(statement);
                if (statement.toUpperCase().startsWith("INSERT")) {
                    result.await();
                } else if (statement.toUpperCase().startsWith("SELECT")) {
                    print(result);
                }
            } catch (Throwable error) {
                error.printStackTrace();
                System.exit(1);
            }
        }
        System.exit(0);
    }

    private static void print(TableResult result) throws Exception {
        try (CloseableIterator<Row> rows = result.collect()) {
            while (rows.hasNext()) {
                Row row = rows.next();
                StringJoiner line = new StringJoiner("\t");
                line.add("row").add(row.getKind().shortString());
                for (int at = 0; at < row.getArity(); at++) {
                    line.add(String.valueOf(row.getField(at)));
                }
                System.out.println(line);
            }
        }
    }
}
