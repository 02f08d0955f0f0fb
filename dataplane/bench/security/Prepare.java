import java.io.FileInputStream;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/**
 * <pre>
 * Prepare CLIENT_PROPERTIES TOPIC PARTITIONS RULES
 * </pre>
 *
 * Creates a topic and so many rules about topics. One rule lets the benchmark's client use its topic. Of
 * the others, which are about other principals, every tenth has a prefix of the topic's name.
 */
public final class Prepare {
    private static final int RULES_PER_REQUEST = 1_000;

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (InputStream file = new FileInputStream(arguments[0])) {
            properties.load(file);
        }
        String topic = arguments[1];
        int partitions = Integer.parseInt(arguments[2]);
        int count = Integer.parseInt(arguments[3]);
        try (Admin admin = Admin.create(properties)) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
            List<AclBinding> rules = rules(topic, count);
            for (int from = 0; from < count; from += RULES_PER_REQUEST) {
                int end = Math.min(from + RULES_PER_REQUEST, count);
                admin.createAcls(rules.subList(from, end)).all().get();
            }
        }
    }

    private static List<AclBinding> rules(String topic, int count) {
        List<AclBinding> rules = new ArrayList<>();
        for (int at = 0; at < count - 1; at++) {
            String principal = "User:tenant-" + at;
            if (at % 10 == 0) {
                String prefix = topic.substring(0, 1 + at / 10 % topic.length());
                rules.add(rule(PatternType.PREFIXED, prefix, principal, AclOperation.READ));
            } else {
                rules.add(rule(PatternType.LITERAL, "topic-" + at, principal, AclOperation.WRITE));
            }
        }
        // Last, so that all requests before it are allowed for want of a rule about the topic.
        if (count > 0) rules.add(rule(PatternType.LITERAL, topic, "User:ANONYMOUS", AclOperation.ALL));
        return rules;
    }

    private static AclBinding rule(
            PatternType type, String name, String principal, AclOperation operation) {
        return new AclBinding(
            new ResourcePattern(ResourceType.TOPIC, name, type),
            new AccessControlEntry(principal, "*", operation, AclPermissionType.ALLOW));
    }
}
