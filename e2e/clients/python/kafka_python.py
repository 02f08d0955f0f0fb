"""Writes each line of its standard input as a record with kafka-python, then reads as many in a consumer group and
prints them. The environment is described in programs.ts."""

import os
import sys
import uuid

from kafka import KafkaConsumer, KafkaProducer

try:
    from kafka.net.sasl.oauth import AbstractTokenProvider
except ImportError:  # kafka-python 2
    from kafka.oauth.abstract import AbstractTokenProvider

IDLE_MS_MAX = 30_000


class FixedToken(AbstractTokenProvider):
    def token(self):
        return env("PASSWORD")


def env(name):
    return os.environ.get(f"CLIENT_{name}", "")


def settings():
    chosen = {
        "bootstrap_servers": env("BOOTSTRAP"),
        "security_protocol": env("PROTOCOL"),
        "ssl_cafile": env("CA_FILE"),
    }
    if env("IDENTITY_FILE"):
        chosen |= {"ssl_certfile": env("IDENTITY_FILE"), "ssl_keyfile": env("IDENTITY_FILE")}
    if not env("PROTOCOL").startswith("SASL"):
        return chosen
    chosen["sasl_mechanism"] = env("MECHANISM")
    if env("MECHANISM") == "OAUTHBEARER":
        return chosen | {"sasl_oauth_token_provider": FixedToken()}
    return chosen | {"sasl_plain_username": env("USERNAME"), "sasl_plain_password": env("PASSWORD")}


def main():
    values = sys.stdin.read().splitlines()
    producer = KafkaProducer(acks="all", **settings())
    for value in values:
        producer.send(env("TOPIC"), value.encode()).get(timeout=IDLE_MS_MAX / 1000)
    producer.close()
    consumer = KafkaConsumer(
        env("TOPIC"),
        group_id=f"clients-{uuid.uuid4()}",
        auto_offset_reset="earliest",
        consumer_timeout_ms=IDLE_MS_MAX,
        **settings(),
    )
    for seen, record in enumerate(consumer, start=1):
        print(record.value.decode(), flush=True)
        if seen == len(values):
            break
    consumer.close()


main()
