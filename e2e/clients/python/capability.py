"""Tries one capability of a Python client: its arguments name the client and the capability, which
kafka/matrix/capabilities.ts describes."""

import asyncio
import os
import sys
import time

BOOTSTRAP = os.environ["CLIENT_BOOTSTRAP"]
TOPIC = os.environ["CLIENT_TOPIC"]
GROUP = os.environ["CLIENT_GROUP"]
RECORDS = 10
PARTITIONS = 2
WAIT_SECONDS_MAX = 40
CODECS = ("gzip", "snappy", "lz4", "zstd")


def absent(reason):
    print(f"n/a {reason}")
    sys.exit(0)


def expect(wanted, found, what):
    if wanted != found:
        sys.exit(f"{found} {what}, not {wanted}")


class Confluent:
    """confluent-kafka, which is librdkafka."""

    def produce(self, settings, prefix="v", producer=None):
        from confluent_kafka import Producer

        producer = producer or Producer({"bootstrap.servers": BOOTSTRAP, "acks": "all", **settings})
        failures = []
        for at in range(RECORDS):
            producer.produce(
                TOPIC, f"{prefix}{at}", partition=at % PARTITIONS, on_delivery=lambda error, _: error and failures.append(error)
            )
        unsent = producer.flush(WAIT_SECONDS_MAX)
        if failures or unsent:
            sys.exit(f"{unsent} records not sent: {failures}")

    def consumer(self, **settings):
        from confluent_kafka import Consumer

        chosen = {"bootstrap.servers": BOOTSTRAP, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        return Consumer({**chosen, "group.id": GROUP, **{key.replace("_", "."): value for key, value in settings.items()}})

    def read(self, **settings):
        from confluent_kafka import TopicPartition

        consumer = self.consumer(enable_partition_eof=True, **settings)
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
        values, ends, deadline = [], set(), time.monotonic() + WAIT_SECONDS_MAX
        while len(ends) < PARTITIONS and time.monotonic() < deadline:
            record = consumer.poll(0.5)
            if record is None:
                continue
            if record.error():
                ends.add(record.partition())
            else:
                values.append(record.value().decode())
        consumer.close()
        return values

    def exchange(self, settings):
        self.produce(settings)
        expect(RECORDS, len(self.read()), "records read")

    def plain(self):
        self.exchange({})

    def codec(self, name):
        self.exchange({"compression.type": name})

    def idempotent(self):
        self.exchange({"enable.idempotence": True})

    def transactions(self):
        from confluent_kafka import Producer, TopicPartition

        producer = Producer({"bootstrap.servers": BOOTSTRAP, "transactional.id": GROUP})
        member = self.consumer()
        producer.init_transactions(WAIT_SECONDS_MAX)
        producer.begin_transaction()
        self.produce({}, "committed", producer)
        offsets = [TopicPartition(TOPIC, 0, 3)]
        producer.send_offsets_to_transaction(offsets, member.consumer_group_metadata(), WAIT_SECONDS_MAX)
        producer.commit_transaction(WAIT_SECONDS_MAX)
        producer.begin_transaction()
        self.produce({}, "aborted", producer)
        producer.abort_transaction(WAIT_SECONDS_MAX)
        expect(3, member.committed([TopicPartition(TOPIC, 0)], WAIT_SECONDS_MAX)[0].offset, "committed offset")
        values = self.read(isolation_level="read_committed")
        expect([], [value for value in values if value.startswith("aborted")], "aborted records")
        expect(RECORDS, len(values), "committed records")

    def group(self, protocol):
        from confluent_kafka import TopicPartition

        self.produce({})
        settings = {"group_protocol": protocol}
        if protocol == "classic":
            settings["session_timeout_ms"] = 10_000
        first, second = self.consumer(**settings), self.consumer(**settings)
        for consumer in (first, second):
            consumer.subscribe([TOPIC])
        values = set()

        def poll(consumers, holds):
            deadline = time.monotonic() + WAIT_SECONDS_MAX
            while not holds():
                if time.monotonic() > deadline:
                    sys.exit(f"no such assignment; read {len(values)}")
                for consumer in consumers:
                    record = consumer.poll(0.1)
                    if record is not None and not record.error():
                        values.add(record.value())

        poll((first, second), lambda: len(first.assignment()) == 1 and len(second.assignment()) == 1)
        second.close()
        poll((first,), lambda: len(first.assignment()) == PARTITIONS and len(values) == RECORDS)
        first.commit(offsets=[TopicPartition(TOPIC, 0, RECORDS // PARTITIONS)], asynchronous=False)
        first.close()

    def classic_group(self):
        self.group("classic")

    def consumer_group(self):
        self.group("consumer")

    def share_group(self):
        self.produce({}, "first")
        released, accepted = self.acknowledge(True)
        expect((RECORDS, RECORDS), (released, len(accepted)), "records released and accepted")
        self.produce({}, "later")
        released, accepted = self.acknowledge(False)
        expect(0, released, "records released")
        expect([], [value for value in accepted if not value.startswith(b"later")], "records delivered after acceptance")

    def acknowledge(self, releases):
        """Is a member of the share group until it has accepted RECORDS; may release records at their first delivery."""
        from confluent_kafka import AcknowledgeType, ShareConsumer

        settings = {"bootstrap.servers": BOOTSTRAP, "group.id": GROUP, "share.acknowledgement.mode": "explicit"}
        member = ShareConsumer(settings)
        member.subscribe([TOPIC])
        released, accepted, deadline = 0, [], time.monotonic() + WAIT_SECONDS_MAX
        while len(accepted) < RECORDS:
            if time.monotonic() > deadline:
                sys.exit(f"{released} released, {len(accepted)} accepted")
            for record in member.poll(0.2):
                if record.error():
                    sys.exit(str(record.error()))
                if releases and record.delivery_count() == 1:
                    member.acknowledge(record, AcknowledgeType.RELEASE)
                    released += 1
                else:
                    member.acknowledge(record, AcknowledgeType.ACCEPT)
                    accepted.append(record.value())
            failures = [error for error in member.commit_sync(WAIT_SECONDS_MAX).values() if error is not None]
            expect([], failures, "acknowledgements")
        member.close()
        return released, accepted

    def admin(self):
        from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic

        admin, topic = AdminClient({"bootstrap.servers": BOOTSTRAP}), f"{TOPIC}-made"
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(WAIT_SECONDS_MAX)
        change = ConfigEntry("retention.ms", "5000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource("TOPIC", topic, incremental_configs=[change])
        admin.incremental_alter_configs([resource])[resource].result(WAIT_SECONDS_MAX)
        time.sleep(0.5)
        asked = ConfigResource("TOPIC", topic)
        expect("5000", admin.describe_configs([asked])[asked].result(WAIT_SECONDS_MAX)["retention.ms"].value, "retention.ms")
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(WAIT_SECONDS_MAX)
        time.sleep(0.5)
        expect(3, len(admin.list_topics(topic, WAIT_SECONDS_MAX).topics[topic].partitions), "partitions")
        admin.describe_cluster().result(WAIT_SECONDS_MAX)
        admin.list_consumer_groups().result(WAIT_SECONDS_MAX)
        admin.delete_topics([topic])[topic].result(WAIT_SECONDS_MAX)


class KafkaPython:
    """kafka-python."""

    def produce(self, settings, prefix="v", producer=None):
        from kafka import KafkaProducer

        producer = producer or KafkaProducer(bootstrap_servers=BOOTSTRAP, **{"acks": "all", **settings})
        for at in range(RECORDS):
            producer.send(TOPIC, f"{prefix}{at}".encode(), partition=at % PARTITIONS).get(WAIT_SECONDS_MAX)

    def consumer(self, **settings):
        from kafka import KafkaConsumer

        return KafkaConsumer(bootstrap_servers=BOOTSTRAP, auto_offset_reset="earliest", enable_auto_commit=False, **settings)

    def read(self, **settings):
        from kafka import TopicPartition

        consumer = self.consumer(**settings)
        partitions = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        values, deadline = [], time.monotonic() + WAIT_SECONDS_MAX
        while any(consumer.position(one) < ends[one] for one in partitions) and time.monotonic() < deadline:
            for records in consumer.poll(200).values():
                values += [record.value.decode() for record in records]
        consumer.close()
        return values

    def exchange(self, settings):
        self.produce(settings)
        expect(RECORDS, len(self.read()), "records read")

    def plain(self):
        self.exchange({"enable_idempotence": False})

    def codec(self, name):
        packages = {"snappy": "snappy", "lz4": "lz4.frame", "zstd": "zstandard"}
        if name in packages:
            try:
                __import__(packages[name])
            except ImportError:
                absent("needs a further package")
        self.exchange({"compression_type": name})

    def idempotent(self):
        self.exchange({"enable_idempotence": True})

    def transactions(self):
        from kafka import KafkaProducer, TopicPartition
        from kafka.structs import OffsetAndMetadata

        producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, transactional_id=GROUP)
        producer.init_transactions()
        producer.begin_transaction()
        self.produce({}, "committed", producer)
        partition = TopicPartition(TOPIC, 0)
        producer.send_offsets_to_transaction({partition: OffsetAndMetadata(3, "", -1)}, GROUP)
        producer.commit_transaction()
        producer.begin_transaction()
        self.produce({}, "aborted", producer)
        producer.abort_transaction()
        expect(3, self.consumer(group_id=GROUP).committed(partition), "committed offset")
        values = self.read(isolation_level="read_committed")
        expect([], [value for value in values if value.startswith("aborted")], "aborted records")
        expect(RECORDS, len(values), "committed records")

    def classic_group(self, **settings):
        import threading

        self.produce({})
        values, ends, assigned = set(), [threading.Event(), threading.Event()], [0, 0]

        def member(at):
            consumer = self.consumer(group_id=GROUP, **settings)
            consumer.subscribe([TOPIC])
            while not ends[at].is_set():
                for records in consumer.poll(200).values():
                    values.update(record.value for record in records)
                assigned[at] = len(consumer.assignment())
            consumer.commit()
            consumer.close()
            assigned[at] = 0

        members = [threading.Thread(target=member, args=(at,), daemon=True) for at in range(2)]
        for one in members:
            one.start()
        self.until(lambda: assigned == [1, 1])
        ends[1].set()
        self.until(lambda: assigned == [PARTITIONS, 0] and len(values) == RECORDS)
        ends[0].set()
        members[0].join(WAIT_SECONDS_MAX)

    def until(self, holds):
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not holds():
            if time.monotonic() > deadline:
                sys.exit("no such assignment")
            time.sleep(0.1)

    def consumer_group(self):
        from kafka import KafkaConsumer

        if "group_protocol" not in KafkaConsumer.DEFAULT_CONFIG:
            absent("not supported by the client")
        self.classic_group(group_protocol="consumer")

    def share_group(self):
        absent("not supported by the client")

    def admin(self):
        from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic

        admin, topic = KafkaAdminClient(bootstrap_servers=BOOTSTRAP), f"{TOPIC}-made"
        admin.create_topics([NewTopic(name=topic, num_partitions=1, replication_factor=1)])
        admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        admin.create_partitions({topic: 3})
        time.sleep(0.5)
        expect(3, len(admin.describe_topics([topic])[0]["partitions"]), "partitions")
        admin.describe_cluster()
        admin.delete_topics([topic])


class AioKafka:
    """aiokafka."""

    def run(self, work):
        asyncio.run(asyncio.wait_for(work, WAIT_SECONDS_MAX * 2))

    async def produce(self, settings, prefix="v", producer=None):
        from aiokafka import AIOKafkaProducer

        own = producer is None
        producer = producer or AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, **{"acks": "all", **settings})
        if own:
            await producer.start()
        for at in range(RECORDS):
            await producer.send_and_wait(TOPIC, f"{prefix}{at}".encode(), partition=at % PARTITIONS)
        if own:
            await producer.stop()

    def consumer(self, *topics, **settings):
        from aiokafka import AIOKafkaConsumer

        chosen = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **settings}
        return AIOKafkaConsumer(*topics, bootstrap_servers=BOOTSTRAP, **chosen)

    async def read(self, **settings):
        from aiokafka import TopicPartition

        consumer = self.consumer(**settings)
        await consumer.start()
        partitions = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        ends, values, deadline = await consumer.end_offsets(partitions), [], time.monotonic() + WAIT_SECONDS_MAX
        while time.monotonic() < deadline:
            for records in (await consumer.getmany(timeout_ms=200)).values():
                values += [record.value.decode() for record in records]
            if all([await consumer.position(one) >= ends[one] for one in partitions]):
                break
        await consumer.stop()
        return values

    async def exchange(self, settings):
        await self.produce(settings)
        expect(RECORDS, len(await self.read()), "records read")

    def plain(self):
        self.run(self.exchange({}))

    def codec(self, name):
        try:
            self.run(self.exchange({"compression_type": name}))
        except RuntimeError as error:
            if "library" in str(error) or "libraries" in str(error):
                absent("needs a further package")
            raise

    def idempotent(self):
        self.run(self.exchange({"enable_idempotence": True}))

    def transactions(self):
        self.run(self.transact())

    async def transact(self):
        from aiokafka import AIOKafkaProducer, TopicPartition

        producer = AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, transactional_id=GROUP)
        await producer.start()
        await producer.begin_transaction()
        await self.produce({}, "committed", producer)
        partition = TopicPartition(TOPIC, 0)
        await producer.send_offsets_to_transaction({partition: 3}, GROUP)
        await producer.commit_transaction()
        await producer.begin_transaction()
        await self.produce({}, "aborted", producer)
        await producer.abort_transaction()
        await producer.stop()
        member = self.consumer(TOPIC, group_id=GROUP)
        await member.start()
        expect(3, await member.committed(partition), "committed offset")
        await member.stop()
        values = await self.read(isolation_level="read_committed")
        expect([], [value for value in values if value.startswith("aborted")], "aborted records")
        expect(RECORDS, len(values), "committed records")

    def classic_group(self):
        self.run(self.share())

    async def share(self):
        await self.produce({})
        first, second, values = self.consumer(TOPIC, group_id=GROUP), self.consumer(TOPIC, group_id=GROUP), set()
        await first.start()
        await second.start()

        async def poll(consumers, holds):
            deadline = time.monotonic() + WAIT_SECONDS_MAX
            while not holds():
                if time.monotonic() > deadline:
                    sys.exit(f"no such assignment; read {len(values)}")
                for consumer in consumers:
                    for records in (await consumer.getmany(timeout_ms=100)).values():
                        values.update(record.value for record in records)

        await poll((first, second), lambda: len(first.assignment()) == 1 and len(second.assignment()) == 1)
        await second.stop()
        await poll((first,), lambda: len(first.assignment()) == PARTITIONS and len(values) == RECORDS)
        await first.commit()
        await first.stop()

    def consumer_group(self):
        absent("not supported by the client")

    def share_group(self):
        absent("not supported by the client")

    def admin(self):
        self.run(self.administer())

    async def administer(self):
        from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
        from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

        admin, topic = AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP), f"{TOPIC}-made"
        await admin.start()
        await admin.create_topics([NewTopic(topic, 1, 1)])
        await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        await admin.create_partitions({topic: NewPartitions(3)})
        await asyncio.sleep(0.5)
        expect(3, len((await admin.describe_topics([topic]))[0]["partitions"]), "partitions")
        await admin.describe_cluster()
        await admin.list_consumer_groups()
        await admin.delete_topics([topic])
        await admin.close()


CLIENTS = {"confluent-kafka": Confluent, "kafka-python": KafkaPython, "aiokafka": AioKafka}


def main():
    client, capability = CLIENTS[sys.argv[1]](), sys.argv[2]
    if capability in CODECS:
        client.codec(capability)
    else:
        {
            "produce": client.plain,
            "consume": client.plain,
            "idempotent produce": client.idempotent,
            "transactions": client.transactions,
            "classic group": client.classic_group,
            "consumer group": client.consumer_group,
            "share group": client.share_group,
            "admin": client.admin,
        }[capability]()
    # Threads of a client that is not closed would hold the process.
    sys.stdout.flush()
    os._exit(0)


main()
