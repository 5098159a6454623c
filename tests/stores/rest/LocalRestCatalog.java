import java.util.HashMap;
import java.util.Map;
import org.apache.paimon.rest.RESTCatalogServer;
import org.apache.paimon.rest.auth.AuthProvider;
import org.apache.paimon.rest.auth.BearTokenAuthProvider;
import org.apache.paimon.rest.responses.ConfigResponse;

/**
 * The server of Paimon's own tests of its REST catalog, on a port of this machine alone.
 *
 * <p>Arguments: the folder of the tables, the name of the warehouse, the token. It says where it
 * listens.
 */
public class LocalRestCatalog {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> defaults = new HashMap<>();
        defaults.put("prefix", "paimon");
        AuthProvider auth = new BearTokenAuthProvider(arguments[2]);
        RESTCatalogServer server =
            new RESTCatalogServer(
                arguments[0], auth, new ConfigResponse(defaults, new HashMap<>()), arguments[1]);
        server.start();
        System.out.println(server.getUrl());
        Thread.currentThread().join();
    }
}
