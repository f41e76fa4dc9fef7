import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** YARN with one node on this machine: writes its configuration to `conf`, and ends with its standard input. */
public class MiniYarn {
    public static void main(String[] args) throws Exception {
        Path folder = Path.of(args[0]).toAbsolutePath();
        System.setProperty("test.build.data", folder.toString());
        YarnConfiguration conf = new YarnConfiguration();
        conf.set("fs.defaultFS", "file:///");
        conf.set("hadoop.tmp.dir", folder.resolve("tmp").toString());
        conf.set("yarn.resourcemanager.scheduler.class",
                "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler");
        conf.setInt("yarn.scheduler.minimum-allocation-mb", 128);
        conf.setInt("yarn.minicluster.yarn.nodemanager.resource.memory-mb", 8192);
        conf.setInt("yarn.nodemanager.resource.cpu-vcores", 8);
        conf.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
        conf.setBoolean("yarn.nodemanager.pmem-check-enabled", false);
        conf.setFloat("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", 100f);
        MiniYARNCluster cluster = new MiniYARNCluster("yarn", 1, 1, 1);
        cluster.init(conf);
        cluster.start();
        if (!cluster.waitForNodeManagersToConnect(60000)) {
            throw new IllegalStateException("no node has come");
        }
        Files.createDirectories(folder.resolve("conf"));
        for (String name : new String[] {"yarn-site.xml", "core-site.xml"}) {
            try (OutputStream out = Files.newOutputStream(folder.resolve("conf").resolve(name))) {
                cluster.getConfig().writeXml(out);
            }
        }
        System.out.println("ready");
        System.out.flush();
        while (System.in.read() >= 0) { }
        cluster.stop();
        System.exit(0);
    }
}
