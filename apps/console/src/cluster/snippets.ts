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

export function snippetsFor(bootstrap: string): Snippet[] {
  return [kcat(bootstrap), java(bootstrap), node(bootstrap), python(bootstrap)];
}

function kcat(bootstrap: string): Snippet {
  return {
    client: "kcat",
    install: "apt-get install kcat   # macOS: brew install kcat",
    code: `echo "hello from kcat" | kcat -b ${bootstrap} -P -t hello-kcat
kcat -b ${bootstrap} -C -t hello-kcat -o beginning -e`,
  };
}

function java(bootstrap: string): Snippet {
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
    var server = Map.<String, Object>of("bootstrap.servers", "${bootstrap}");
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

function node(bootstrap: string): Snippet {
  return {
    client: "Node.js",
    install: "npm install kafkajs",
    file: "hello.mjs",
    run: "node hello.mjs",
    code: `import kafkajs from "kafkajs";

const kafka = new kafkajs.Kafka({ clientId: "hello", brokers: ["${bootstrap}"] });

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

function python(bootstrap: string): Snippet {
  return {
    client: "Python",
    install: "pip install confluent-kafka",
    file: "hello.py",
    run: "python3 hello.py",
    code: `from confluent_kafka import Consumer, Producer

producer = Producer({"bootstrap.servers": "${bootstrap}"})
producer.produce("hello-python", "hello from Python")
producer.flush()

consumer = Consumer({
    "bootstrap.servers": "${bootstrap}",
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
