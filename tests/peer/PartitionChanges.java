import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.controller.PartitionChangeBuilder;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.common.MetadataVersion;

/** Asks Kafka's own rule what becomes of a partition: one line in, one line out; lists are joined by commas. */
public class PartitionChanges {
    static List<Integer> list(String text) {
        if (text.isEmpty()) return List.of();
        return Arrays.stream(text.split(",")).map(Integer::parseInt).collect(Collectors.toList());
    }

    static int[] array(String text) {
        return list(text).stream().mapToInt(Integer::intValue).toArray();
    }

    static String text(List<Integer> values) {
        return values == null ? "-" : values.stream().map(String::valueOf).collect(Collectors.joining(","));
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] f = line.split(";", -1);
            int[] replicas = array(f[0]);
            Uuid[] directories = new Uuid[replicas.length];
            for (int i = 0; i < replicas.length; i++) directories[i] = new Uuid(7, replicas[i]);
            PartitionRegistration partition = new PartitionRegistration.Builder().
                setReplicas(replicas).setDirectories(directories).setIsr(array(f[1])).
                setRemovingReplicas(array(f[2])).setAddingReplicas(array(f[3])).
                setElr(array(f[4])).setLastKnownElr(array(f[5])).setLeader(Integer.valueOf(f[6])).
                setLeaderRecoveryState(LeaderRecoveryState.of(Byte.parseByte(f[7]))).
                setLeaderEpoch(3).setPartitionEpoch(5).build();
            Set<Integer> able = new HashSet<>(list(f[16]));
            PartitionChangeBuilder builder = new PartitionChangeBuilder(partition, Uuid.ZERO_UUID, 0, able::contains,
                MetadataVersion.fromFeatureLevel(Short.parseShort(f[15])), Integer.parseInt(f[14]), f[13].equals("elr"));
            if (!f[8].equals("-")) builder.setTargetIsr(list(f[8]));
            if (!f[9].equals("-")) builder.setTargetReplicas(list(f[9]));
            if (!f[10].equals("-")) builder.setTargetRemoving(list(f[10]));
            if (!f[11].equals("-")) builder.setTargetAdding(list(f[11]));
            if (!f[17].isEmpty()) builder.setUncleanShutdownReplicas(list(f[17]));
            if (!f[18].equals("-"))
                builder.setTargetLeaderRecoveryState(LeaderRecoveryState.of(Byte.parseByte(f[18])));
            builder.setElection(PartitionChangeBuilder.Election.valueOf(f[12])).
                setDefaultDirProvider(broker -> new Uuid(7, broker));
            var made = builder.build();
            if (made.isEmpty()) {
                System.out.println("none");
                continue;
            }
            PartitionChangeRecord r = (PartitionChangeRecord) made.get().message();
            String dirs = r.directories() == null ? "-" : r.directories().stream().
                map(each -> String.valueOf(each.getLeastSignificantBits())).collect(Collectors.joining(","));
            System.out.println(String.join(";", text(r.isr()), String.valueOf(r.leader()), text(r.replicas()),
                text(r.removingReplicas()), text(r.addingReplicas()), String.valueOf(r.leaderRecoveryState()), dirs,
                text(r.eligibleLeaderReplicas()), text(r.lastKnownElr())));
        }
    }
}
