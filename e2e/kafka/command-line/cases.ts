/** What is asked of Kafka's command-line tools, in this order: each step finds what those before it left. */
import type { ToolCommand } from "./tools.ts";

export interface Case {
  name: string;
  /** Of one broker, at this address; `file` gives the path of a file with this content. */
  command: (bootstrap: string, file: (content: string) => string) => ToolCommand;
  /** Changes nothing: it is repeated while the outputs differ, as what it reads may still be on its way. */
  reads: boolean;
  /** What differs between any two runs, beside what differs in all outputs; whole lines where it begins with `^`. */
  removes: RegExp[];
  /** Prepares only: nothing is compared, and it must succeed. */
  prepares: boolean;
}

const TOOLS = {
  "kafka-acls": "org.apache.kafka.tools.AclCommand",
  "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
  "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
  "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
  "kafka-configs": "kafka.admin.ConfigCommand",
  "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
  "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
  "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
  "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
  "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
  "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
  "kafka-e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
  "kafka-features": "org.apache.kafka.tools.FeatureCommand",
  "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
  "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
  "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
  "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
  "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
  "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
  "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
  "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
  "kafka-streams-application-reset": "org.apache.kafka.tools.StreamsResetter",
  "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
  "kafka-topics": "org.apache.kafka.tools.TopicCommand",
  "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
  "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
  "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
} as const;
type Tool = keyof typeof TOOLS;

interface Options {
  input?: string;
  /** Content of the file whose path takes the place of `FILE`. */
  file?: string;
  /** Before the arguments by default; where the tool names it otherwise, `BOOTSTRAP` among the arguments. */
  removes?: RegExp[];
  secondsMax?: number;
}

/** @param line the arguments as in a shell; quotes keep spaces. */
function step(reads: boolean, tool: Tool, line: string, options: Options = {}): Case {
  const { input = "", file: content = "", removes = [], secondsMax = 40 } = options;
  return {
    name: `${tool} ${line}`,
    reads,
    removes,
    prepares: false,
    command: (bootstrap, file) => {
      const words = [...line.matchAll(/'([^']*)'|\S+/g)].map(([word, quoted]) => quoted ?? word);
      const own = /BOOTSTRAP/.test(line) ? [] : ["--bootstrap-server", bootstrap];
      const args = words.map((word) =>
        word.replace("BOOTSTRAP", bootstrap).replace("FILE", () => file(content)),
      );
      // It prints what was acknowledged while its JVM ends.
      const apart = tool === "kafka-verifiable-producer";
      return { tool: TOOLS[tool], args: [...own, ...args], input, secondsMax, apart };
    },
  };
}
const reads = (tool: Tool, line: string, options?: Options) => step(true, tool, line, options);
const changes = (tool: Tool, line: string, options?: Options) => step(false, tool, line, options);

function prepares(name: string, command: ToolCommand): Case {
  return {
    name,
    reads: false,
    removes: [],
    prepares: true,
    command: (bootstrap) => ({ ...command, bootstrap }),
  };
}

/** Of a slow run, before the last line. */
const REPORT = /^.*max latency\.$/gm;
const NUMBERS = /\d+(\.\d+)?/g;
/** Offsets topics have more partitions in Millrace. */
const INTERNAL = /^__.*\n/gm;
const PRODUCERS = /(?<=^|\s)\d+(?=\s)/gm;

const topics: Case[] = [
  changes("kafka-topics", "--create --topic t --partitions 2 --replication-factor 1"),
  changes("kafka-topics", "--create --topic t"),
  changes("kafka-topics", "--create --topic t --if-not-exists"),
  changes(
    "kafka-topics",
    "--create --topic u --config retention.ms=60000 --config cleanup.policy=compact",
  ),
  changes("kafka-topics", "--create --topic a.b_c"),
  changes("kafka-topics", "--create --topic bad/name"),
  changes("kafka-topics", "--create --topic far --replication-factor 3"),
  changes("kafka-topics", "--create --topic none --partitions 0"),
  changes("kafka-topics", "--create --topic bad --config retention.ms=x"),
  changes("kafka-topics", "--create --topic bad --config no.such.config=1"),
  changes("kafka-topics", "--create --topic placed --replica-assignment 1,1"),
  changes("kafka-topics", "--create --topic placed2 --replica-assignment 7"),
  reads("kafka-topics", "--list"),
  reads("kafka-topics", "--list --exclude-internal"),
  reads("kafka-topics", "--describe --topic t"),
  reads("kafka-topics", "--describe"),
  reads("kafka-topics", "--describe --topic '(t|u)'"),
  reads("kafka-topics", "--describe --topic absent"),
  reads("kafka-topics", "--describe --topic absent --if-exists"),
  reads("kafka-topics", "--describe --topics-with-overrides", {
    // Kafka sets min.insync.replicas of every topic.
    removes: [/^.*Configs: (min\.insync\.replicas=1)?\s*$/gm],
  }),
  reads("kafka-topics", "--describe --under-replicated-partitions"),
  reads("kafka-topics", "--describe --unavailable-partitions"),
  reads("kafka-topics", "--describe --under-min-isr-partitions"),
  reads("kafka-topics", "--describe --at-min-isr-partitions --topic t"),
  changes("kafka-topics", "--alter --topic t --partitions 3"),
  changes("kafka-topics", "--alter --topic t --partitions 2"),
  changes("kafka-topics", "--alter --topic absent --partitions 2"),
  changes("kafka-topics", "--delete --topic absent"),
  changes("kafka-topics", "--delete --topic placed"),
  changes("kafka-topics", "--delete --topic absent --if-exists"),
];

const configs: Case[] = [
  changes(
    "kafka-configs",
    "--alter --entity-type topics --entity-name t --add-config retention.ms=700000000,max.message.bytes=200000",
  ),
  changes(
    "kafka-configs",
    "--alter --entity-type topics --entity-name t --delete-config max.message.bytes",
  ),
  changes("kafka-configs", "--alter --entity-type topics --entity-name t --delete-config flush.ms"),
  changes(
    "kafka-configs",
    "--alter --entity-type topics --entity-name t --add-config retention.ms=x",
  ),
  changes("kafka-configs", "--alter --entity-type topics --entity-name t --add-config no.such=1"),
  changes(
    "kafka-configs",
    "--alter --entity-type topics --entity-name absent --add-config retention.ms=1",
  ),
  changes(
    "kafka-configs",
    "--alter --entity-type topics --entity-name t --add-config cleanup.policy=[compact,delete]",
  ),
  reads("kafka-configs", "--describe --entity-type topics --entity-name t"),
  reads("kafka-configs", "--describe --entity-type topics --entity-name t --all"),
  reads("kafka-configs", "--describe --entity-type topics"),
  reads("kafka-configs", "--describe --entity-type topics --entity-name absent"),
  reads("kafka-configs", "--describe --entity-type brokers --entity-name 1"),
  reads("kafka-configs", "--describe --entity-type brokers --entity-default"),
  reads("kafka-configs", "--describe --broker 7"),
  changes(
    "kafka-configs",
    "--alter --entity-type brokers --entity-default --add-config log.retention.ms=86400000",
  ),
  reads("kafka-configs", "--describe --entity-type brokers --entity-default"),
  changes(
    "kafka-configs",
    "--alter --entity-type brokers --entity-default --delete-config log.retention.ms",
  ),
  changes(
    "kafka-configs",
    "--alter --entity-type users --entity-name alice --add-config producer_byte_rate=1000,consumer_byte_rate=2000",
  ),
  changes(
    "kafka-configs",
    "--alter --entity-type users --entity-name alice --entity-type clients --entity-name c --add-config request_percentage=50",
  ),
  changes(
    "kafka-configs",
    "--alter --entity-type clients --entity-default --add-config producer_byte_rate=3000",
  ),
  changes(
    "kafka-configs",
    "--alter --entity-type ips --entity-name 10.0.0.1 --add-config connection_creation_rate=10",
  ),
  reads("kafka-configs", "--describe --entity-type users --entity-name alice"),
  reads("kafka-configs", "--describe --entity-type users --entity-type clients"),
  reads("kafka-configs", "--describe --entity-type clients --entity-default"),
  reads("kafka-configs", "--describe --entity-type ips"),
  changes(
    "kafka-configs",
    "--alter --entity-type users --entity-name alice --delete-config producer_byte_rate",
  ),
  changes(
    "kafka-configs",
    "--alter --entity-type users --entity-name alice --add-config 'SCRAM-SHA-256=[password=secret],SCRAM-SHA-512=[iterations=5000,password=secret]'",
  ),
  reads("kafka-configs", "--describe --entity-type users"),
  changes(
    "kafka-configs",
    "--alter --entity-type users --entity-name alice --delete-config SCRAM-SHA-256",
  ),
  changes(
    "kafka-configs",
    "--alter --entity-type groups --entity-name g --add-config consumer.session.timeout.ms=50000",
  ),
  reads("kafka-configs", "--describe --entity-type groups --entity-name g"),
  reads("kafka-configs", "--describe --entity-type broker-loggers --entity-name 1"),
];

const records: Case[] = [
  changes(
    "kafka-console-producer",
    "--topic t --property parse.key=true --property key.separator=:",
    { input: "a:one\nb:two\nc:three\n" },
  ),
  changes(
    "kafka-console-producer",
    "--topic u --property parse.key=true --property key.separator=:",
    { input: "k:1\nk:2\nl:3\n" },
  ),
  changes(
    "kafka-console-producer",
    "--topic u --compression-codec zstd --property parse.headers=true --property parse.key=true",
    { input: "h:v\tk\t4\n" },
  ),
  changes("kafka-console-producer", "--topic made-on-write --request-required-acks 1", {
    input: "x\n",
  }),
  changes("kafka-console-producer", "--topic bad/name", { input: "x\n" }),
  reads("kafka-console-consumer", "--topic t --from-beginning --max-messages 3 --timeout-ms 10000"),
  reads(
    "kafka-console-consumer",
    "--topic u --partition 0 --offset 1 --max-messages 3 --timeout-ms 10000 --property print.key=true --property print.offset=true --property print.partition=true --property print.headers=true",
  ),
  reads(
    "kafka-console-consumer",
    "--topic u --partition 0 --offset earliest --isolation-level read_committed --max-messages 4 --timeout-ms 10000 --property print.timestamp=true",
    { removes: [/CreateTime:\d+/g] },
  ),
  changes(
    "kafka-console-consumer",
    "--topic t --from-beginning --group g --max-messages 3 --timeout-ms 10000",
  ),
  changes(
    "kafka-console-consumer",
    "--topic t --from-beginning --consumer-property group.protocol=consumer --group h --max-messages 3 --timeout-ms 10000",
  ),
  changes(
    "kafka-console-consumer",
    "--include '(t|u)' --from-beginning --group i --max-messages 7 --timeout-ms 10000",
  ),
  reads("kafka-console-consumer", "--topic made-on-read --timeout-ms 2000"),
  changes(
    "kafka-producer-perf-test",
    "--topic perf --num-records 500 --record-size 100 --throughput -1 --producer-props bootstrap.servers=BOOTSTRAP acks=all",
    { removes: [REPORT, NUMBERS] },
  ),
  changes(
    "kafka-producer-perf-test",
    "--topic perf --num-records 200 --record-size 100 --throughput 1000 --transactional-id perf --transaction-duration-ms 100 --producer-props bootstrap.servers=BOOTSTRAP",
    { removes: [REPORT, NUMBERS] },
  ),
  changes("kafka-consumer-perf-test", "--topic perf --messages 500 --group perf --timeout 10000", {
    removes: [NUMBERS],
  }),
  changes("kafka-e2e-latency", "BOOTSTRAP e2e 20 all 50", { removes: [NUMBERS] }),
  changes("kafka-verifiable-producer", "--topic v --max-messages 5 --throughput 100", {
    removes: [/(?<="avg_throughput":)[\d.]+/g],
  }),
  changes(
    "kafka-verifiable-consumer",
    "--topic v --group-id verify --max-messages 5 --reset-policy earliest",
  ),
];

const offsets: Case[] = [
  reads("kafka-get-offsets", "--topic t"),
  reads("kafka-get-offsets", "", { removes: [INTERNAL] }),
  reads("kafka-get-offsets", "--topic u --time earliest"),
  reads("kafka-get-offsets", "--topic u --time latest"),
  reads("kafka-get-offsets", "--topic u --time max-timestamp"),
  reads("kafka-get-offsets", "--topic u --time earliest-local"),
  reads("kafka-get-offsets", "--topic u --time latest-tiered"),
  reads("kafka-get-offsets", "--topic u --time 1000"),
  reads("kafka-get-offsets", "--topic-partitions t:0,u:0"),
  reads("kafka-get-offsets", "--topic absent"),
  reads("kafka-get-offsets", "--topic t --partitions 9"),
  reads("kafka-get-offsets", "--exclude-internal-topics"),
  changes("kafka-delete-records", "--offset-json-file FILE", {
    file: '{"partitions":[{"topic":"perf","partition":0,"offset":2}],"version":1}',
  }),
  changes("kafka-delete-records", "--offset-json-file FILE", {
    file: '{"partitions":[{"topic":"perf","partition":0,"offset":-1}],"version":1}',
  }),
  changes("kafka-delete-records", "--offset-json-file FILE", {
    file: '{"partitions":[{"topic":"perf","partition":0,"offset":100000}],"version":1}',
  }),
  changes("kafka-delete-records", "--offset-json-file FILE", {
    file: '{"partitions":[{"topic":"u","partition":0,"offset":1}],"version":1}',
  }),
  reads("kafka-get-offsets", "--topic perf --time earliest"),
];

const groups: Case[] = [
  reads("kafka-consumer-groups", "--list"),
  reads("kafka-consumer-groups", "--list --state"),
  reads("kafka-consumer-groups", "--list --state Empty"),
  reads("kafka-consumer-groups", "--list --type"),
  reads("kafka-consumer-groups", "--list --type consumer"),
  reads("kafka-consumer-groups", "--describe --group g"),
  reads("kafka-consumer-groups", "--describe --group h"),
  reads("kafka-consumer-groups", "--describe --group absent"),
  reads("kafka-consumer-groups", "--describe --all-groups"),
  reads("kafka-consumer-groups", "--describe --group g --state"),
  reads("kafka-consumer-groups", "--describe --group g --members"),
  prepares("a member of c joins", { join: "classic", group: "c", topic: "t", protocol: "classic" }),
  prepares("a member of d joins", {
    join: "consumer",
    group: "d",
    topic: "t",
    protocol: "consumer",
  }),
  ...["c", "d"].flatMap((group) => [
    reads("kafka-consumer-groups", `--describe --group ${group}`),
    reads("kafka-consumer-groups", `--describe --group ${group} --offsets --verbose`),
    reads("kafka-consumer-groups", `--describe --group ${group} --members`),
    reads("kafka-consumer-groups", `--describe --group ${group} --members --verbose`),
    reads("kafka-consumer-groups", `--describe --group ${group} --state`),
    reads("kafka-consumer-groups", `--describe --group ${group} --state --verbose`),
    changes("kafka-consumer-groups", `--delete --group ${group}`),
    changes(
      "kafka-consumer-groups",
      `--reset-offsets --to-earliest --group ${group} --topic t --execute`,
    ),
    changes("kafka-consumer-groups", `--delete-offsets --group ${group} --topic t`),
  ]),
  reads("kafka-consumer-groups", "--list --state Stable"),
  reads("kafka-groups", "--list"),
  reads("kafka-groups", "--list --consumer"),
  reads("kafka-groups", "--list --group-type classic"),
  reads("kafka-groups", "--list --share"),
  reads("kafka-groups", "--list --protocol consumer"),
  reads("kafka-consumer-groups", "--validate-regex '(t|u'"),
  prepares("the member of c leaves", { leave: "classic" }),
  prepares("the member of d leaves", { leave: "consumer" }),
  ...["g", "h"].flatMap((group) => [
    reads(
      "kafka-consumer-groups",
      `--reset-offsets --to-earliest --group ${group} --topic t --dry-run`,
    ),
    changes(
      "kafka-consumer-groups",
      `--reset-offsets --to-earliest --group ${group} --topic t --execute`,
    ),
    changes(
      "kafka-consumer-groups",
      `--reset-offsets --shift-by 1 --group ${group} --topic t:0 --execute`,
    ),
    changes(
      "kafka-consumer-groups",
      `--reset-offsets --to-offset 100 --group ${group} --topic t --execute`,
    ),
    changes(
      "kafka-consumer-groups",
      `--reset-offsets --to-datetime 2020-01-01T00:00:00.000 --group ${group} --topic t --execute`,
    ),
    changes(
      "kafka-consumer-groups",
      `--reset-offsets --by-duration P1D --group ${group} --topic t --execute`,
    ),
    reads(
      "kafka-consumer-groups",
      `--reset-offsets --to-current --group ${group} --all-topics --dry-run --export`,
    ),
    changes(
      "kafka-consumer-groups",
      `--reset-offsets --from-file FILE --group ${group} --execute`,
      { file: "t,0,0\n" },
    ),
    changes(
      "kafka-consumer-groups",
      `--reset-offsets --to-latest --group ${group} --topic absent --execute`,
    ),
    changes("kafka-consumer-groups", `--delete-offsets --group ${group} --topic t:0`),
    changes("kafka-consumer-groups", `--delete-offsets --group ${group} --topic absent`),
    reads("kafka-consumer-groups", `--describe --group ${group}`),
    changes("kafka-consumer-groups", `--delete --group ${group}`),
    changes("kafka-consumer-groups", `--delete --group ${group}`),
  ]),
  changes("kafka-consumer-groups", "--reset-offsets --to-earliest --group new --topic t --execute"),
  reads("kafka-consumer-groups", "--describe --group new"),
  changes("kafka-consumer-groups", "--delete-offsets --group absent --topic t"),
  changes("kafka-consumer-groups", "--delete --all-groups", {
    // In the order of a hash map.
    removes: [/(?<=groups )\(.*\)/g],
  }),
  changes("kafka-streams-application-reset", "--application-id app --input-topics t --dry-run"),
  changes("kafka-streams-application-reset", "--application-id app --input-topics t"),
];

const transactions: Case[] = [
  prepares("a transaction is open", { open: "tx", topic: "t" }),
  reads("kafka-transactions", "list", { removes: [PRODUCERS] }),
  reads("kafka-transactions", "list --running-longer-than-ms 3600000"),
  reads("kafka-transactions", "list --duration-filter 0", { removes: [PRODUCERS] }),
  reads("kafka-transactions", "list --transactional-id-pattern t.*", { removes: [PRODUCERS] }),
  reads("kafka-transactions", "describe --transactional-id tx", { removes: [NUMBERS] }),
  reads("kafka-transactions", "describe --transactional-id absent"),
  reads("kafka-transactions", "describe-producers --topic t --partition 0", { removes: [NUMBERS] }),
  // The client waits for the topic as long as it may.
  reads(
    "kafka-transactions",
    "--command-config FILE describe-producers --topic absent --partition 0",
    {
      file: "default.api.timeout.ms=3000\nrequest.timeout.ms=2000\n",
      removes: [NUMBERS],
    },
  ),
  reads("kafka-transactions", "find-hanging --broker-id 1"),
  reads("kafka-transactions", "find-hanging --topic t --partition 0 --max-transaction-timeout 1"),
  changes("kafka-transactions", "abort --topic t --partition 0 --start-offset 100"),
  reads(
    "kafka-console-consumer",
    "--topic t --partition 0 --offset earliest --isolation-level read_committed --max-messages 100 --timeout-ms 2000",
  ),
  changes("kafka-transactions", "forceTerminateTransaction --transactional-id tx"),
  reads("kafka-transactions", "list", { removes: [PRODUCERS] }),
  prepares("its producer ends", { end: "tx" }),
];

const cluster: Case[] = [
  reads("kafka-broker-api-versions", ""),
  reads("kafka-cluster", "cluster-id --bootstrap-server BOOTSTRAP", {
    removes: [/(?<=Cluster ID: )\S+/g],
  }),
  reads("kafka-cluster", "list-endpoints --bootstrap-server BOOTSTRAP"),
  reads("kafka-features", "describe", { removes: [/(?<=Epoch: )\d+/g] }),
  changes("kafka-features", "upgrade --feature no.such=1"),
  changes("kafka-features", "upgrade --release-version 4.1 --dry-run"),
  changes("kafka-features", "downgrade --feature transaction.version=1 --dry-run"),
  reads("kafka-features", "version-mapping --release-version 4.1"),
  reads("kafka-features", "feature-dependencies --feature transaction.version=2"),
  reads("kafka-metadata-quorum", "describe --status", {
    removes: [/^ClusterId:.*$/gm, /"endpoints": \[.*?\]/g, NUMBERS],
  }),
  reads("kafka-log-dirs", "--describe --topic-list t", {
    removes: [/"size":\d+/g, /"(total|usable)Bytes":-?\d+/g],
  }),
  reads("kafka-log-dirs", "--describe --topic-list u --broker-list 1", {
    removes: [/"size":\d+/g],
  }),
  reads("kafka-log-dirs", "--describe --broker-list 9"),
  changes("kafka-leader-election", "--election-type preferred --all-topic-partitions"),
  changes("kafka-leader-election", "--election-type preferred --topic t --partition 0"),
  changes("kafka-leader-election", "--election-type unclean --topic t --partition 0"),
  changes("kafka-leader-election", "--election-type preferred --topic absent --partition 0"),
  changes("kafka-leader-election", "--election-type preferred --path-to-json-file FILE", {
    file: '{"partitions":[{"topic":"t","partition":1}]}',
  }),
  reads("kafka-reassign-partitions", "--list"),
  reads("kafka-reassign-partitions", "--generate --topics-to-move-json-file FILE --broker-list 1", {
    file: '{"topics":[{"topic":"t"}],"version":1}',
  }),
  changes("kafka-reassign-partitions", "--execute --reassignment-json-file FILE", {
    file: '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["any"]}]}',
  }),
  reads("kafka-reassign-partitions", "--verify --reassignment-json-file FILE", {
    file: '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}',
  }),
  changes("kafka-reassign-partitions", "--cancel --reassignment-json-file FILE", {
    file: '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}',
  }),
];

const acls: Case[] = [
  changes(
    "kafka-acls",
    "--add --allow-principal User:alice --operation Read --operation Describe --topic t",
  ),
  changes(
    "kafka-acls",
    "--add --deny-principal User:bob --deny-host 10.0.0.9 --operation All --topic p --resource-pattern-type prefixed",
  ),
  changes(
    "kafka-acls",
    "--add --allow-principal User:alice --producer --topic t --transactional-id x",
  ),
  changes("kafka-acls", "--add --allow-principal User:alice --consumer --topic t --group g"),
  changes("kafka-acls", "--add --allow-principal User:alice --operation Alter --cluster"),
  changes(
    "kafka-acls",
    "--add --allow-principal User:alice --operation DescribeTokens --user-principal User:bob",
  ),
  changes("kafka-acls", "--add --allow-principal User:alice --operation Write --group g", {
    removes: [/\[[A-Z_, ]+\]/g],
  }),
  reads("kafka-acls", "--list"),
  reads("kafka-acls", "--list --topic t"),
  reads("kafka-acls", "--list --topic prefix --resource-pattern-type match"),
  reads("kafka-acls", "--list --principal User:bob"),
  changes("kafka-acls", "--remove --allow-principal User:alice --operation Read --topic t --force"),
  changes("kafka-acls", "--remove --topic t --force"),
  changes("kafka-acls", "--remove --topic absent --force"),
  reads("kafka-acls", "--list"),
];

const metrics: Case[] = [
  changes(
    "kafka-client-metrics",
    "--alter --name m --metrics org.apache.kafka.consumer. --interval 10000 --match client_id=x",
  ),
  changes("kafka-client-metrics", "--alter --name bad --interval 1"),
  reads("kafka-client-metrics", "--list"),
  reads("kafka-client-metrics", "--describe --name m"),
  reads("kafka-client-metrics", "--describe"),
  reads("kafka-client-metrics", "--describe --name absent"),
  reads("kafka-configs", "--describe --entity-type client-metrics --entity-name m"),
  changes("kafka-client-metrics", "--delete --name m"),
  reads("kafka-client-metrics", "--list"),
];

const shares: Case[] = [
  changes(
    "kafka-configs",
    "--alter --entity-type groups --entity-name s --add-config share.auto.offset.reset=earliest",
  ),
  changes(
    "kafka-console-share-consumer",
    "--topic t --group s --max-messages 3 --timeout-ms 30000",
    // Which records come first depends on which partition answers first.
    { removes: [/^(one|two|three|open)$/gm] },
  ),
  reads("kafka-share-groups", "--list"),
  reads("kafka-share-groups", "--list --state"),
  // So do the offsets; a partition that was not read yet has none.
  reads("kafka-share-groups", "--describe --group s", { removes: [/(?<=\s)(\d+|-)(?=\s|$)/gm] }),
  reads("kafka-share-groups", "--describe --group s --members"),
  reads("kafka-share-groups", "--describe --group s --state"),
  reads("kafka-share-groups", "--describe --group absent"),
  changes("kafka-share-groups", "--reset-offsets --group s --topic t --to-earliest --execute"),
  changes("kafka-share-groups", "--delete-offsets --group s --topic t"),
  changes("kafka-share-groups", "--delete --group s"),
  changes("kafka-share-groups", "--delete --group absent"),
  reads("kafka-streams-groups", "--list"),
  reads("kafka-streams-groups", "--describe --group absent"),
];

export const CASES: Record<string, Case[]> = {
  topics,
  configs,
  records,
  offsets,
  groups,
  transactions,
  cluster,
  acls,
  metrics,
  shares,
};
