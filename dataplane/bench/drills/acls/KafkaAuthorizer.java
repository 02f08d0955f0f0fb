import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Kafka's StandardAuthorizer behind standard input and output. Fields are separated by tabs; types and
 * operations are Kafka's codes.
 *
 * <pre>
 * rule TYPE NAME PATTERN PRINCIPAL HOST OPERATION PERMISSION
 * load SUPER_USERS ALLOW_IF_NO_RULE     an authorizer with the rules since the last load
 * ask  PRINCIPAL HOST OPERATION TYPE NAME
 * any  PRINCIPAL HOST OPERATION TYPE    some resource of the type (KIP-679)
 * end                                   prints + or - for each question since the last end
 * </pre>
 */
public final class KafkaAuthorizer {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<Uuid, StandardAcl> rules = new HashMap<>();
        StandardAuthorizer authorizer = null;
        StringBuilder answers = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] field = line.split("\t", -1);
            switch (field[0]) {
                case "rule" -> rules.put(Uuid.randomUuid(), new StandardAcl(
                    type(field[1]), field[2], PatternType.fromCode(code(field[3])), field[4],
                    field[5], operation(field[6]), AclPermissionType.fromCode(code(field[7]))));
                case "load" -> {
                    authorizer = new StandardAuthorizer();
                    authorizer.configure(Map.of(
                        "node.id", "1", "super.users", field[1],
                        "allow.everyone.if.no.acl.found", field[2]));
                    // It counts its decisions, and fails where it cannot.
                    authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
                    authorizer.loadSnapshot(rules);
                    authorizer.completeInitialLoad();
                    rules.clear();
                }
                case "ask" -> {
                    ResourcePattern resource =
                        new ResourcePattern(type(field[4]), field[5], PatternType.LITERAL);
                    Action action = new Action(operation(field[3]), resource, 1, false, false);
                    add(answers, authorizer.authorize(client(field), List.of(action)).get(0));
                }
                case "any" -> add(answers, authorizer.authorizeByResourceType(
                    client(field), operation(field[3]), type(field[4])));
                case "end" -> {
                    System.out.println(answers);
                    System.out.flush();
                    answers.setLength(0);
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
    }

    private static void add(StringBuilder answers, AuthorizationResult result) {
        answers.append(result == AuthorizationResult.ALLOWED ? '+' : '-');
    }

    private static byte code(String field) {
        return Byte.parseByte(field);
    }

    private static ResourceType type(String field) {
        return ResourceType.fromCode(code(field));
    }

    private static AclOperation operation(String field) {
        return AclOperation.fromCode(code(field));
    }

    private static AuthorizableRequestContext client(String[] field) throws Exception {
        KafkaPrincipal principal = SecurityUtils.parseKafkaPrincipal(field[1]);
        InetAddress address = InetAddress.getByName(field[2]);
        return new AuthorizableRequestContext() {
            @Override public String listenerName() { return "SASL_SSL"; }
            @Override public SecurityProtocol securityProtocol() { return SecurityProtocol.SASL_SSL; }
            @Override public KafkaPrincipal principal() { return principal; }
            @Override public InetAddress clientAddress() { return address; }
            @Override public int requestType() { return 0; }
            @Override public int requestVersion() { return 0; }
            @Override public String clientId() { return "drill"; }
            @Override public int correlationId() { return 0; }
        };
    }
}
