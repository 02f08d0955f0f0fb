"""What Schemathesis needs to know beyond the document."""

import json
import os

import schemathesis
from hypothesis import strategies as st

KNOWN = json.loads(os.environ["MILLRACE_KNOWN_OBJECTS"])
# The events of an operation that nobody works on have no end.
STREAMS = {"GET /v1/operations/{operation_id}/events"}


@schemathesis.hook
def before_load_schema(context, raw_schema):
    """Python's regular expressions have no Unicode classes, and no generator follows the schema of a stream's events:
    OpenAPI 3.1 does not define it."""
    _rewrite(raw_schema)


def _rewrite(node):
    if isinstance(node, list):
        for child in node:
            _rewrite(child)
    if not isinstance(node, dict):
        return
    if isinstance(node.get("pattern"), str):
        node["pattern"] = node["pattern"].replace(r"\p{Cc}", r"\x00-\x1f\x7f-\x9f").replace(r"\p{Cs}", "")
    if "text/event-stream" in node:
        node["text/event-stream"] = {}
    for child in node.values():
        _rewrite(child)


@schemathesis.hook
def before_generate_path_parameters(context, strategy):
    """Half of the requests name objects that exist: random ids alone would test little but "not found"."""
    if "{" not in context.operation.path or context.operation.label in STREAMS:
        return strategy
    # What is deleted is gone for the operations that follow.
    known = KNOWN["deletable" if context.operation.method.upper() == "DELETE" else "kept"]
    existing = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in known.items()})

    def replaced(parts):
        generated, chosen = parts
        # Schemathesis passes the values alone or with how they were generated.
        values = generated if isinstance(generated, dict) else getattr(generated, "value", None)
        if isinstance(values, dict):
            for name in values:
                values[name] = chosen.get(name, values[name])
        return generated

    return st.one_of(strategy, st.tuples(strategy, existing).map(replaced))
