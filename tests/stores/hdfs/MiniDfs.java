import java.io.File;
import java.nio.file.Files;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** A NameNode and a DataNode in one process, until its standard input ends. */
public class MiniDfs {
    public static void main(String[] arguments) throws Exception {
        Configuration conf = new Configuration();
        conf.set("dfs.permissions.enabled", "false");
        conf.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, arguments[0]);
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(conf).numDataNodes(1).build();
        cluster.waitActive();
        System.out.println("webhdfs " + cluster.getNameNode().getHttpAddress().getPort());
        System.out.flush();
        while (System.in.read() != -1) { }
        cluster.shutdown();
        System.exit(0);
    }
}
