"""A trace read back with Google's protobuf package.

The messages are described here, from the public Perfetto field numbers, apart from the tables in the Rust crate.
Unknown fields are refused, so the writer cannot use a field that is not listed.
"""

import subprocess
from pathlib import Path

import pytest
from conftest import example
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, unknown_fields

ROOT = Path(__file__).resolve().parents[2]
Field = descriptor_pb2.FieldDescriptorProto

MESSAGES = {
    "Trace": [("packet", 1, "*TracePacket")],
    "TracePacket": [
        ("timestamp", 8, "uint64"),
        ("trusted_packet_sequence_id", 10, "uint32"),
        ("track_event", 11, "TrackEvent"),
        ("interned_data", 12, "InternedData"),
        ("sequence_flags", 13, "uint32"),
        ("track_descriptor", 60, "TrackDescriptor"),
    ],
    "TrackDescriptor": [
        ("uuid", 1, "uint64"),
        ("name", 2, "string"),
        ("parent_uuid", 5, "uint64"),
        ("counter", 8, "CounterDescriptor"),
        ("child_ordering", 11, "int32"),
        ("sibling_order_rank", 12, "int32"),
    ],
    "CounterDescriptor": [("unit", 3, "int32"), ("unit_name", 6, "string")],
    "TrackEvent": [
        ("debug_annotations", 4, "*DebugAnnotation"),
        ("type", 9, "int32"),
        ("name_iid", 10, "uint64"),
        ("track_uuid", 11, "uint64"),
        ("name", 23, "string"),
        ("counter_value", 30, "int64"),
        ("flow_ids", 47, "*fixed64"),
    ],
    "DebugAnnotation": [
        ("name_iid", 1, "uint64"),
        ("uint_value", 3, "uint64"),
        ("string_value", 6, "string"),
        ("name", 10, "string"),
        ("string_value_iid", 17, "uint64"),
    ],
    "InternedData": [
        ("event_names", 2, "*Name"),
        ("debug_annotation_names", 3, "*Name"),
        ("debug_annotation_string_values", 29, "*Name"),
    ],
    "Name": [("iid", 1, "uint64"), ("name", 2, "string")],
}
SCALARS = {name: getattr(Field, f"TYPE_{name.upper()}") for name in ["uint64", "uint32", "int64", "int32", "string", "fixed64"]}
BEGIN, END, COUNTER = 1, 2, 4
INTERNED = ["event_names", "debug_annotation_names", "debug_annotation_string_values"]


def trace_class():
    """The class of `Trace`, built from the tables above."""
    file = descriptor_pb2.FileDescriptorProto(name="trace.proto", package="perfetto.protos", syntax="proto2")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, number, kind in fields:
            label = Field.LABEL_REPEATED if kind.startswith("*") else Field.LABEL_OPTIONAL
            kind = kind.removeprefix("*")
            field = message.field.add(name=field_name, number=number, label=label)
            field.type = SCALARS.get(kind, Field.TYPE_MESSAGE)
            if kind not in SCALARS:
                field.type_name = f".perfetto.protos.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("perfetto.protos.Trace"))


def refuse_unknown(message):
    unknown = [field.field_number for field in unknown_fields.UnknownFieldSet(message)]
    assert not unknown, f"{message.DESCRIPTOR.name} has unknown fields {unknown}"
    for field, value in message.ListFields():
        if field.type == Field.TYPE_MESSAGE:
            for inner in value if hasattr(value, "__len__") else [value]:
                refuse_unknown(inner)


class Reading:
    """A trace as a viewer understands it."""

    def __init__(self, trace):
        self.tracks, self.slices, self.counters = {}, [], {}
        self.strings = {kind: {} for kind in INTERNED}
        for packet in trace.packet:
            if packet.HasField("track_descriptor"):
                assert packet.track_descriptor.uuid not in self.tracks
                self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            for kind in INTERNED:
                self.strings[kind].update({entry.iid: entry.name for entry in getattr(packet.interned_data, kind)})
        open_slices = {uuid: [] for uuid in self.tracks}
        events = [packet for packet in trace.packet if packet.HasField("track_event")]
        for packet in sorted(events, key=lambda packet: packet.timestamp):
            self.read(packet.timestamp, packet.track_event, open_slices[packet.track_event.track_uuid])
        assert not any(open_slices.values()), "every begin has an end"

    def read(self, at_ns, event, stack):
        if event.type == BEGIN:
            stack.append((self.path(event.track_uuid), self.name(event), at_ns, self.annotations(event), list(event.flow_ids)))
        elif event.type == END:
            path, name, start_ns, annotations, flows = stack.pop()
            self.slices.append((path, name, start_ns, at_ns, annotations, flows))
        else:
            assert event.type == COUNTER
            self.counters.setdefault(self.path(event.track_uuid), []).append((at_ns, event.counter_value))

    def name(self, event):
        return self.strings["event_names"][event.name_iid] if event.HasField("name_iid") else event.name

    def annotations(self, event):
        names, texts = self.strings["debug_annotation_names"], self.strings["debug_annotation_string_values"]
        values = {}
        for annotation in event.debug_annotations:
            is_text = annotation.HasField("string_value_iid")
            values[names[annotation.name_iid]] = texts[annotation.string_value_iid] if is_text else annotation.uint_value
        return values

    def path(self, uuid):
        track = self.tracks[uuid]
        return (self.path(track.parent_uuid) + "/" if track.parent_uuid else "") + track.name


def tiny(directory, clock_hz):
    path = directory / "tiny.pftrace"
    command = [*example("tilewright-record", "tiny_trace"), str(path), str(clock_hz)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    trace = trace_class().FromString(path.read_bytes())
    refuse_unknown(trace)
    return trace


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return tiny(tmp_path_factory.mktemp("trace"), 1_000_000_000)


def test_one_sequence_whose_state_starts_with_the_first_packet(trace):
    assert {packet.trusted_packet_sequence_id for packet in trace.packet} == {1}
    assert [packet.sequence_flags for packet in trace.packet] == [1] + [2] * (len(trace.packet) - 1)


def test_tracks_nest_as_the_machine_does(trace):
    reading = Reading(trace)
    paths = {reading.path(uuid) for uuid in reading.tracks}
    core = {f"chip0/pe0/{name}" for name in ["main", "contraction", "tdma", "dm", "dm/occupancy"]}
    assert paths == {"chip0", "chip0/pe0", "chip0/power"} | core
    units = {reading.path(uuid): (track.counter.unit, track.counter.unit_name) for uuid, track in reading.tracks.items()}
    assert units["chip0/pe0/dm/occupancy"] == (3, "")
    assert units["chip0/power"] == (0, "mW")


def test_slices_have_names_times_counts_and_flows(trace):
    source = "exec qk: (q, d), (k, d) -> (q, k)"
    assert Reading(trace).slices == [
        ("chip0/pe0/tdma", "dma in0", 0, 64, {"bytes": 8192, "binding": "hbm"}, [1]),
        ("chip0/pe0/tdma", "dma in1", 32, 96, {"bytes": 8192, "binding": "hbm"}, [2]),
        ("chip0/pe0/main", "wait_d", 96, 97, {}, [1, 2]),
        ("chip0/pe0/main", "exec", 97, 1121, {"macs": 1 << 20, "binding": "contraction", "source": source}, []),
        ("chip0/pe0/contraction", "exec", 97, 1121, {"macs": 1 << 20}, []),
        ("chip0/pe0/main", "commit", 1121, 1185, {"bytes": 4096}, []),
    ]


def test_counters_step_at_their_times(trace):
    assert Reading(trace).counters == {
        "chip0/pe0/dm/occupancy": [(64, 8192), (96, 16384)],
        "chip0/power": [(0, 900), (97, 2500), (1121, 900)],
    }


def test_a_clock_off_the_nanosecond_rounds_down_and_keeps_its_cycles(tmp_path):
    clock_hz = 1_400_000_000
    for _, _, start_ns, end_ns, annotations, _ in Reading(tiny(tmp_path, clock_hz)).slices:
        assert start_ns == annotations["start_cycles"] * 10**9 // clock_hz
        assert end_ns == annotations["end_cycles"] * 10**9 // clock_hz


def test_the_schema_of_perfetto_itself_knows_every_field(tmp_path):
    """The messages above are written by hand; these are Perfetto's own, of traces of both chip families."""
    schema = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    import tilewright

    files = [tmp_path / "tiny.pftrace"]
    subprocess.run([*example("tilewright-record", "tiny_trace"), str(files[0]), "1000000000"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    for kernel in ("kernels/softmax.tcp", "tests/neuron/matmul.neuron"):
        files.append(tilewright.simulate(ROOT / kernel).trace.save(tmp_path / f"{Path(kernel).name}.pftrace"))
    for file in files:
        trace = schema.Trace.FromString(file.read_bytes())
        refuse_unknown(trace)
        events = [packet.track_event for packet in trace.packet if packet.HasField("track_event")]
        kinds = {schema.TrackEvent.Type.Name(event.type) for event in events}
        assert kinds <= {"TYPE_SLICE_BEGIN", "TYPE_SLICE_END", "TYPE_COUNTER"}
        begun, ended = (sum(event.type == kind for event in events) for kind in (BEGIN, END))
        assert begun == ended > 0
        units = {packet.track_descriptor.counter.unit for packet in trace.packet if packet.track_descriptor.HasField("counter")}
        assert units <= set(schema.CounterDescriptor.Unit.values())
