"""Writes each line of its standard input as a record with confluent-kafka, which is librdkafka, then reads as many in a
consumer group and prints them; or it runs the steady mode. programs.ts describes both."""

import itertools
import os
import sys
import threading
import time
import uuid

from confluent_kafka import Consumer, KafkaException, Producer

IDLE_SECONDS_MAX = 30
TOKEN_SECONDS = 240


def env(name):
    return os.environ.get(f"CLIENT_{name}", "")


def settings():
    chosen = {
        "bootstrap.servers": env("BOOTSTRAP"),
        "security.protocol": env("PROTOCOL"),
        "ssl.ca.location": env("CA_FILE"),
    }
    if env("IDENTITY_FILE"):
        chosen["ssl.certificate.location"] = env("IDENTITY_FILE")
        chosen["ssl.key.location"] = env("IDENTITY_FILE")
    if not env("PROTOCOL").startswith("SASL"):
        return chosen
    chosen["sasl.mechanism"] = env("MECHANISM")
    if env("MECHANISM") == "OAUTHBEARER":
        return chosen | {"oauth_cb": lambda _: (env("PASSWORD"), time.time() + TOKEN_SECONDS)}
    return chosen | {"sasl.username": env("USERNAME"), "sasl.password": env("PASSWORD")}


def produce(values):
    failures = []
    producer = Producer({**settings(), "acks": "all", "message.timeout.ms": IDLE_SECONDS_MAX * 1000})
    for value in values:
        producer.produce(env("TOPIC"), value, on_delivery=lambda error, _: error and failures.append(error))
    unsent = producer.flush(IDLE_SECONDS_MAX)
    if failures or unsent:
        sys.exit(f"{unsent} records not sent: {failures}")


def consume(count):
    group = {"group.id": f"clients-{uuid.uuid4()}", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings(), **group})
    consumer.subscribe([env("TOPIC")])
    deadline = time.monotonic() + IDLE_SECONDS_MAX
    for seen in range(count):
        record = None
        while record is None:
            if time.monotonic() > deadline:
                sys.exit(f"read {seen} records of {count}")
            record = consumer.poll(1)
        if record.error():
            raise KafkaException(record.error())
        print(record.value().decode(), flush=True)
    consumer.close()


def steady():
    """Records at a steady rate, numbered per partition, until the standard input ends; a consumer reads them."""
    partitions, rate = int(env("PARTITIONS")), int(env("RECORDS_PER_SECOND"))
    tuned = {"retry.backoff.ms": 20, "retry.backoff.max.ms": 100} if env("TUNED") == "1" else {}
    threading.Thread(target=follow, daemon=True).start()
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    producer = Producer({**settings(), "enable.idempotence": True, **tuned})
    started = time.monotonic()
    for sequence in itertools.count():
        if ended.is_set():
            break
        for partition in range(partitions):
            producer.produce(
                env("TOPIC"), str(sequence), partition=partition, on_delivery=report(partition, sequence)
            )
        # Deliveries are reported meanwhile.
        while (left := started + (sequence + 1) / rate - time.monotonic()) > 0:
            producer.poll(left)
    producer.flush()
    print_line("flushed")
    threading.Event().wait()


def report(partition, sequence):
    def on_delivery(error, _):
        if error:
            print_line(f"failed {partition} {sequence} {error}")
        else:
            print_line(f"acked {partition} {sequence} {time.time_ns() // 1_000_000}")

    return on_delivery


def follow():
    consumer = Consumer({**settings(), "group.id": f"{env('TOPIC')}-readers", "auto.offset.reset": "earliest"})
    consumer.subscribe([env("TOPIC")])
    while True:
        record = consumer.poll(1)
        if record is None:
            continue
        if record.error():
            print_line(f"error {record.error()}")
        else:
            print_line(f"read {record.partition()} {record.value().decode()}")


def print_line(line):
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main():
    if sys.argv[1:] == ["steady"]:
        steady()
    values = sys.stdin.read().splitlines()
    produce(values)
    consume(len(values))


main()
