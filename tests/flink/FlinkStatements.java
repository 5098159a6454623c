import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;

/** Runs the statements of a file in a mini cluster: FILE, then settings as name=value. */
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
                } else {
                    result.print();
                }
            } catch (Throwable error) {
                error.printStackTrace();
                System.exit(1);
            }
        }
        System.exit(0);
    }
}
