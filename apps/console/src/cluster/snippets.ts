/**
 * Programs that work when pasted: each writes one record to a topic of its own, which the broker makes on
 * first use, and reads it back.
 */

/** One client's snippet. */
export interface Snippet {
  client: string;
  /** How to get the client, as shell commands. */
  install: string;
  /** The name of the file that the code goes into; none for shell. */
  file?: string;
  /** How to run the file. */
  run?: string;
  code: string;
}

/** Where a snippet connects, and how. */
export interface Target {
  bootstrap: string;
  /** Whether the endpoint has TLS and SCRAM: the snippet then reads the CA from `ca.pem`. */
  tls: boolean;
}

/** What the reader replaces in a snippet with TLS. */
const USER = "USER";
const PASSWORD = "PASSWORD";

export function snippetsFor(target: Target): Snippet[] {
  return [kcat(target), java(target), node(target), python(target)];
}

function kcat({ bootstrap, tls }: Target): Snippet {
  const install = "apt-get install kcat   # macOS: brew install kcat";
  if (!tls) {
    return {
      client: "kcat",
      install,
      code: `echo "hello from kcat" | kcat -b ${bootstrap} -P -t hello-kcat
kcat -b ${bootstrap} -C -t hello-kcat -o beginning -e`,
    };
  }
  return {
    client: "kcat",
    install,
    code: `cat > kcat.conf <<'CONF'
bootstrap.servers=${bootstrap}
security.protocol=SASL_SSL
ssl.ca.location=ca.pem
sasl.mechanisms=SCRAM-SHA-512
sasl.username=${USER}
sasl.password=${PASSWORD}
CONF
echo "hello from kcat" | kcat -F kcat.conf -P -t hello-kcat
kcat -F kcat.conf -C -t hello-kcat -o beginning -e`,
  };
}

function java({ bootstrap, tls }: Target): Snippet {
  const server = `Map.<String, Object>of("bootstrap.servers", "${bootstrap}")`;
  const protectedServer = `Map.<String, Object>of(
        "bootstrap.servers", "${bootstrap}",
        "security.protocol", "SASL_SSL",
        "ssl.truststore.type", "PEM",
        "ssl.truststore.location", "ca.pem",
        "sasl.mechanism", "SCRAM-SHA-512",
        "sasl.jaas.config", "org.apache.kafka.common.security.scram.ScramLoginModule required"
            + " username=\\"${USER}\\" password=\\"${PASSWORD}\\";")`;
  return {
    client: "Java",
    install: `cat > pom.xml <<'POM'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>example</groupId><artifactId>hello</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-clients</artifactId><version>4.1.0</version></dependency>
  </dependencies>
</project>
POM
mvn -q dependency:copy-dependencies -DoutputDirectory=libs`,
    file: "Hello.java",
    run: "java -cp 'libs/*' Hello.java",
    code: `import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Hello {
  public static void main(String[] args) throws Exception {
    var server = ${tls ? protectedServer : server};
    try (var producer = new KafkaProducer<>(server, new StringSerializer(), new StringSerializer())) {
      producer.send(new ProducerRecord<>("hello-java", "hello from Java")).get();
    }
    var settings = new java.util.HashMap<>(server);
    settings.put("group.id", "hello-java");
    settings.put("auto.offset.reset", "earliest");
    try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
      consumer.subscribe(List.of("hello-java"));
      for (int seen = 0; seen == 0; ) {
        for (var record : consumer.poll(Duration.ofSeconds(1))) {
          System.out.println(record.offset() + ": " + record.value());
          seen++;
        }
      }
      consumer.commitSync();
    }
  }
}`,
  };
}

function node({ bootstrap, tls }: Target): Snippet {
  const plain = `{ clientId: "hello", brokers: ["${bootstrap}"] }`;
  const protectedOptions = `{
  clientId: "hello",
  brokers: ["${bootstrap}"],
  ssl: { ca: readFileSync("ca.pem", "utf8") },
  sasl: { mechanism: "scram-sha-512", username: "${USER}", password: "${PASSWORD}" },
}`;
  return {
    client: "Node.js",
    install: "npm install kafkajs",
    file: "hello.mjs",
    run: "node hello.mjs",
    code: `${tls ? 'import { readFileSync } from "node:fs";\n' : ""}import kafkajs from "kafkajs";

const kafka = new kafkajs.Kafka(${tls ? protectedOptions : plain});

const producer = kafka.producer();
await producer.connect();
await producer.send({ topic: "hello-node", messages: [{ value: "hello from Node.js" }] });
await producer.disconnect();

const consumer = kafka.consumer({ groupId: "hello-node" });
await consumer.connect();
await consumer.subscribe({ topic: "hello-node", fromBeginning: true });
await new Promise((resolve) =>
  consumer.run({
    eachMessage: async ({ message }) => {
      console.log(\`\${message.offset}: \${message.value}\`);
      resolve();
    },
  }),
);
await consumer.disconnect();`,
  };
}

function python({ bootstrap, tls }: Target): Snippet {
  const plain = `{"bootstrap.servers": "${bootstrap}"}`;
  const protectedServer = `{
    "bootstrap.servers": "${bootstrap}",
    "security.protocol": "SASL_SSL",
    "ssl.ca.location": "ca.pem",
    "sasl.mechanisms": "SCRAM-SHA-512",
    "sasl.username": "${USER}",
    "sasl.password": "${PASSWORD}",
}`;
  return {
    client: "Python",
    install: "pip install confluent-kafka",
    file: "hello.py",
    run: "python3 hello.py",
    code: `from confluent_kafka import Consumer, Producer

server = ${tls ? protectedServer : plain}
producer = Producer(server)
producer.produce("hello-python", "hello from Python")
producer.flush()

consumer = Consumer({
    **server,
    "group.id": "hello-python",
    "auto.offset.reset": "earliest",
})
consumer.subscribe(["hello-python"])
message = None
while message is None or message.error():
    message = consumer.poll(1.0)
print(f"{message.offset()}: {message.value().decode()}")
consumer.close()`,
  };
}
