"""Writes each line of its standard input as a record with confluent-kafka, which is librdkafka, then reads as many in a
consumer group and prints them. The environment is described in programs.ts."""

import os
import sys
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


def main():
    values = sys.stdin.read().splitlines()
    produce(values)
    consume(len(values))


main()
