import java.net.InetSocketAddress;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.IHMSHandler;
import org.apache.hadoop.hive.metastore.RetryingHMSHandler;
import org.apache.hadoop.hive.metastore.TUGIBasedProcessor;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf;
import org.apache.hadoop.hive.metastore.security.TUGIContainingTransport;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;

/**
 * Hive's metastore, version 3, on a port of this machine alone: its own main listens everywhere.
 *
 * <p>Its settings are system properties. The tables of locks are made here, as no script runs.
 */
public class LocalMetastore {
    public static void main(String[] arguments) throws Exception {
        Configuration conf = MetastoreConf.newMetastoreConf();
        HiveMetaStore.HMSHandler handler = new HiveMetaStore.HMSHandler("local", conf, false);
        IHMSHandler retrying = RetryingHMSHandler.getProxy(conf, handler, false);
        TxnDbUtil.prepDb(conf);
        int port = Integer.parseInt(arguments[0]);
        TServerSocket socket = new TServerSocket(new InetSocketAddress("127.0.0.1", port));
        new TThreadPoolServer(
            new TThreadPoolServer.Args(socket)
                .processor(new TUGIBasedProcessor<>(retrying))
                .transportFactory(new TUGIContainingTransport.Factory())
                .protocolFactory(new TBinaryProtocol.Factory())
                .inputProtocolFactory(new TBinaryProtocol.Factory()))
            .serve();
    }
}
