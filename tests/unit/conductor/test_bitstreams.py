# SPDX-License-Identifier: Apache-2.0

"""Changes of the library: which are made, which are refused."""

import dataclasses
import random

import pytest

from fpgapool import objects
from fpgapool.bitstreams import library
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions.hardware import bitstreams
from fpgapool.conductor.decisions.requests import admission
from fpgapool.core import model
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.bitstreams import samples
from tests.unit.conductor import administering
from tests.unit.conductor import world as worlds

AROUND = bitstreams.LibraryContext(
    now=50.0, capacities={"medium": {"lut": 100}}
)
SHAPES = {"medium": {}, "large": {}}
ID = samples.record(1).bitstream_id


def create(number: int = 1, **members: object) -> objects.CreateBitstream:
    values = {
        "bitstream_id": samples.record(number).bitstream_id,
        "project_id": "p",
        "user_id": "u",
        "name": "n",
        "accelerator": "mine",
        "version": "1.0",
        "shapes": ("medium",),
        "profile": dict(samples.PROFILE),
    }
    return objects.CreateBitstream(**{**values, **members})


def upload(number: int = 1, **members: object) -> objects.UploadBitstream:
    values = {
        "bitstream_id": samples.record(number).bitstream_id,
        "checksum_sha256": samples.sha256(b"x"),
        "size_bytes": 10,
        "location": f"place{number}",
        "shapes": ("medium",),
        "profile": dict(samples.PROFILE),
    }
    return objects.UploadBitstream(**{**values, **members})


def decide(
    number: int = 1, *, approve: bool = True, **members: object
) -> objects.DecideBitstream:
    return objects.DecideBitstream(
        bitstream_id=samples.record(number).bitstream_id,
        approve=approve,
        user_id="root",
        **members,
    )


@pytest.fixture
def catalogue():
    return bitstreams.Catalogue([samples.BUILTIN])


def refusal(catalogue, change, around=AROUND) -> str:
    """Have a change refused; :returns: the code. Nothing has changed."""
    before = list(catalogue.bitstreams)
    profiles = catalogue.library.profiles
    with pytest.raises(admission.Rejected) as caught:
        catalogue.apply(change, around)
    assert list(catalogue.bitstreams) == before
    assert catalogue.library.profiles is profiles
    return caught.value.code


def test_the_life_of_a_bitstream(catalogue):
    made = catalogue.apply(create(), AROUND)
    assert (made.id, made.state) == (1, library.UPLOADING)
    assert "mine@p" not in catalogue.library.profiles
    assert catalogue.apply(create(), AROUND) is None
    full = catalogue.apply(upload(), AROUND)
    assert (full.state, full.uploaded_at) == (library.UNAPPROVED, 50.0)
    assert "mine@p" not in catalogue.library.profiles
    approved = catalogue.apply(decide(), AROUND)
    assert (approved.state, approved.decided_by) == ("approved", "root")
    assert catalogue.library.resolve("mine", "p") == "mine@p"
    rejected = catalogue.apply(decide(approve=False, reason="no"), AROUND)
    assert (rejected.state, rejected.reason) == (library.REJECTED, "no")
    assert "mine@p" not in catalogue.library.profiles
    catalogue.apply(decide(), AROUND)
    assert "mine@p" in catalogue.library.profiles
    gone = catalogue.apply(objects.DeleteBitstream(bitstream_id=ID), AROUND)
    assert gone.state == db_api.DELETED
    assert list(catalogue.bitstreams) == []
    assert set(catalogue.library.profiles) == {"aes"}


def test_ids_go_on_after_a_restart():
    known = bitstreams.Catalogue([], [samples.record(1)], last_id=7)
    assert known.apply(create(2), AROUND).id == 8


@pytest.mark.parametrize(
    "members",
    [
        {"version": "one"},
        {"version": "1." * 40 + "1"},
        {"accelerator": "a@b"},
        {"accelerator": "../x"},
        {"accelerator": ""},
        {"accelerator": "a" * 60, "project_id": "p" * 200},
        {"bitstream_id": "x"},
        {"bitstream_id": "{" + ID.replace("-", "") + "}"},
        {"format": "zip"},
        {"checksum_sha256": "ab"},
        {"name": "\ud800"},
        {"description": "a\0b"},
        {"profile": {}},
        {"profile": {"peak_bytes_per_s": -1}},
        {"profile": {"peak_bytes_per_s": 1, "shapes": []}},
        {"properties": {"vendor": "\udfff"}},
    ],
)
def test_what_no_row_could_hold_is_refused(catalogue, members):
    assert refusal(catalogue, create(**members)) == codes.INVALID_REQUEST


def test_any_is_a_shape_and_does_not_mean_all(catalogue):
    """Of other shapes, boards may come."""
    change = create(shapes=("medium", "any"))
    assert refusal(catalogue, change) == codes.NO_COMPATIBLE_SLOT
    with pytest.raises(admission.Rejected, match="shapes are large, medium"):
        catalogue.apply(
            change, bitstreams.LibraryContext(now=1, capacities=SHAPES)
        )
    for shapes, capacities in (
        (("any",), {}),
        (("any",), {"any": {}}),
        (("later",), SHAPES),
    ):
        around = bitstreams.LibraryContext(now=1, capacities=capacities)
        fresh = bitstreams.Catalogue([samples.BUILTIN])
        assert fresh.apply(create(shapes=shapes), around) is not None


def test_an_approval_that_fits_no_slot_names_the_shapes(catalogue):
    catalogue.apply(create(shapes=("other",)), AROUND)
    catalogue.apply(upload(shapes=("other",)), AROUND)
    with pytest.raises(admission.Rejected, match=r"other; .* are medium$"):
        catalogue.apply(decide(), AROUND)


def test_a_public_one_needs_no_profile_if_there_is_one_already(catalogue):
    change = create(accelerator="aes", public=True, profile={})
    assert catalogue.apply(change, AROUND) is not None
    private = create(2, accelerator="aes", profile={})
    assert refusal(catalogue, private) == codes.INVALID_REQUEST


def test_a_declaration_brings_its_profile_later(catalogue):
    change = create(format="declaration", profile={}, shapes=())
    assert catalogue.apply(change, AROUND) is not None
    for members in ({"profile": {}}, {"shapes": ()}):
        assert refusal(catalogue, upload(**members)) == codes.INVALID_REQUEST
    assert catalogue.apply(upload(), AROUND).shapes == ["medium"]


def test_resources_that_are_none(catalogue):
    catalogue.apply(create(), AROUND)
    for resources in ({"lut": "many"}, {"lut": -1}, {"gold": 1}):
        code = refusal(catalogue, upload(resources=resources))
        assert code == codes.INVALID_DECLARATION


def test_a_second_file_is_refused(catalogue):
    catalogue.apply(create(), AROUND)
    catalogue.apply(upload(), AROUND)
    assert refusal(catalogue, upload()) == codes.BITSTREAM_HAS_FILE


def test_quotas(catalogue):
    around = dataclasses.replace(AROUND, max_count=2, max_bytes=15)
    for number in (1, 2):
        catalogue.apply(create(number), around)
    assert refusal(catalogue, create(3), around) == codes.QUOTA_EXCEEDED
    # Others have their own.
    catalogue.apply(create(3, project_id="q"), around)
    catalogue.apply(upload(1), around)
    catalogue.apply(upload(3), around)
    assert refusal(catalogue, upload(2), around) == codes.QUOTA_EXCEEDED
    assert catalogue.apply(upload(2, size_bytes=5), around) is not None


def test_what_fits_no_slot_needs_force(catalogue):
    catalogue.apply(create(shapes=("huge",)), AROUND)
    assert refusal(catalogue, decide()) == codes.BITSTREAM_HAS_NO_FILE
    assert refusal(catalogue, decide(approve=False)) == (
        codes.BITSTREAM_HAS_NO_FILE
    )
    catalogue.apply(upload(shapes=("huge",)), AROUND)
    assert refusal(catalogue, decide()) == codes.NO_COMPATIBLE_SLOT
    assert catalogue.apply(decide(force=True), AROUND) is not None


def test_sharing(catalogue):
    catalogue.apply(create(), AROUND)
    catalogue.apply(upload(), AROUND)
    catalogue.apply(decide(), AROUND)

    def share(project_id: str, shared: bool) -> object:
        change = objects.ShareBitstream(
            bitstream_id=ID, project_id=project_id, shared=shared
        )
        return catalogue.apply(change, AROUND)

    assert share("p", True) is None
    assert share("q", False) is None
    assert share("q", True).projects == ["q"]
    assert share("q", True) is None
    assert catalogue.library.may_use("mine@p", "q")
    assert share("q", False).projects == []
    assert not catalogue.library.may_use("mine@p", "q")
    share("q", True)
    private = objects.UpdateBitstream(bitstream_id=ID, public=False)
    assert catalogue.apply(private, AROUND).projects == []


def test_what_runs_is_not_taken_away(catalogue):
    catalogue.apply(create(), AROUND)
    catalogue.apply(upload(), AROUND)
    catalogue.apply(decide(), AROUND)
    running = dataclasses.replace(AROUND, running={ID})
    for change in (
        objects.DeleteBitstream(bitstream_id=ID),
        objects.UpdateBitstream(bitstream_id=ID, public=True),
    ):
        assert refusal(catalogue, change, running) == codes.BITSTREAM_IN_USE
    renamed = objects.UpdateBitstream(bitstream_id=ID, name="new")
    assert catalogue.apply(renamed, running).name == "new"


def test_what_is_not_there(catalogue):
    for change in (
        upload(),
        decide(),
        objects.DeleteBitstream(bitstream_id=ID),
    ):
        assert refusal(catalogue, change) == codes.BITSTREAM_NOT_FOUND


def test_any_sequence_leaves_a_library_that_can_be_built():
    """What a restart finds in the database is what was there before."""
    rng = random.Random(7)
    catalogue = bitstreams.Catalogue([samples.BUILTIN])
    rows: dict[int, db_api.BitstreamRecord] = {}
    for _ in range(600):
        number = rng.randint(1, 5)
        record_id = samples.record(number).bitstream_id
        change = rng.choice(
            [
                create(
                    number,
                    accelerator=rng.choice(["aes", "mine"]),
                    public=rng.random() < 0.3,
                    version=rng.choice(["1", "2"]),
                ),
                upload(number),
                decide(number, approve=rng.random() < 0.8),
                objects.DeleteBitstream(bitstream_id=record_id),
                objects.ShareBitstream(
                    bitstream_id=record_id,
                    project_id=rng.choice("pqr"),
                    shared=rng.random() < 0.5,
                ),
                objects.UpdateBitstream(
                    bitstream_id=record_id,
                    public=rng.choice([None, True, False]),
                ),
            ]
        )
        around = dataclasses.replace(
            AROUND,
            running={samples.record(5).bitstream_id},
            max_count=4,
            max_bytes=25,
        )
        try:
            row = catalogue.apply(change, around)
        except admission.Rejected:
            continue
        if row is not None:
            rows[row.id] = row
        kept = [r for r in rows.values() if r.state != db_api.DELETED]
        assert sorted(kept, key=lambda r: r.id) == sorted(
            catalogue.bitstreams, key=lambda r: r.id
        )
        again = bitstreams.Catalogue([samples.BUILTIN], kept)
        assert again.library.profiles == catalogue.library.profiles
    assert rows


# In the engine.


@pytest.fixture
def pool():
    return worlds.Conductor(worlds.hosts(a=1))


def change(pool, wanted) -> object:
    """Give a change to the engine; :returns: what is answered."""
    return pool.answer(inputs.ChangeBitstream(wanted))


def approve(pool, number=1, **members) -> None:
    for wanted in (create(number, **members), upload(number), decide(number)):
        assert change(pool, wanted) is None


def order(pool) -> objects.AssignRequest:
    (found,) = pool.sent(effects.AssignSlot)
    return found.request


def test_a_session_gets_its_projects_bitstream(pool):
    request = pool.open(accelerator="mine")
    assert pool.view_or_none(request) is None
    approve(pool)
    pool.wire.clear()
    request = pool.open(accelerator="mine")
    assert pool.view(request).accelerator == "mine@p"
    sent = order(pool)
    assert sent.accelerator == "mine@p"
    assert sent.bitstream == f"bitstream:{ID}"
    assert sent.bitstream_ref.checksum_sha256 == samples.sha256(b"x")
    # A repeat of the request is the same one.
    pool.open(request_id=request, accelerator="mine")
    assert pool.view(request).state != states.REJECTED
    (row,) = pool.rows["assignments"].values()
    assert row.bitstream_id == ID


def test_an_order_has_the_signature_for_the_agent_to_verify(pool):
    approve(pool, signature="c2lnbmVk")
    pool.open(accelerator="mine")
    assert order(pool).bitstream_ref.signature == "c2lnbmVk"


def test_a_builtin_needs_no_file(pool):
    pool.open()
    assert order(pool).bitstream == "builtin:copy"
    assert order(pool).bitstream_ref is None


def test_another_project_gets_what_an_unknown_name_gets(pool):
    approve(pool)
    messages = []
    for name in ("mine", "mine@p", "never"):
        request = worlds.request(
            request_id=f"r-{name.replace('@', '-')}",
            project_id="q",
            accelerator=name,
        )
        pool.wire.clear()
        pool.feed(worlds.opening(request))
        (news,) = pool.wire
        assert news.view.reason == codes.UNKNOWN_ACCELERATOR
        messages.append(news.view.message.replace(repr(name), "?"))
    assert len(set(messages)) == 1


def test_the_next_session_gets_the_new_version(pool):
    approve(pool)
    pool.open(accelerator="mine")
    assert order(pool).bitstream_ref.bitstream_id == ID
    pool.settle()
    newer = samples.record(2).bitstream_id
    approve(pool, 2, version="1.10")
    refused = change(pool, objects.DeleteBitstream(bitstream_id=ID))
    assert refused.code == codes.BITSTREAM_IN_USE
    pool.cancel("r1")
    pool.settle()
    pool.open(accelerator="mine")
    assert order(pool).bitstream_ref.bitstream_id == newer
    assert change(pool, objects.DeleteBitstream(bitstream_id=ID)) is None


def test_a_new_leader_repeats_the_same_order(pool):
    approve(pool)
    pool.open(accelerator="mine")
    first = order(pool)
    approve(pool, 2, version="9")
    pool.wire.clear()
    pool.boot_conductor()
    pool.report("a")
    pool.tick(3.0)
    pool.report("a")
    repeated = pool.sent(effects.AssignSlot)
    assert repeated
    for message in repeated:
        assert message.request.bitstream_ref == first.bitstream_ref
    assert pool.memory.catalogue.profiles["mine@p"].projects == ("p",)


@pytest.mark.parametrize("how", ["failed", "drained"])
def test_what_was_taken_away_ends_a_session_that_loses_its_slot(pool, how):
    approve(pool)
    request = pool.open(accelerator="mine")
    pool.deliver_all()
    generation = pool.view(request).generation
    assert change(pool, decide(approve=False)) is None
    assert pool.view(request).state == states.PREPARING
    agent = pool.agents["a"]
    if how == "failed":
        pool.end(states.PREPARE_FAILED, codes.PROGRAM_FAILED)
    else:
        administering.administer(pool, model.AdminState.DRAINING, 0.0)
    view = pool.view(request)
    assert (view.state, view.reason) == (
        states.REJECTED,
        codes.UNKNOWN_ACCELERATOR,
    )
    assert not pool.memory.holds
    assert not pool.rows["assignments"]
    (order,) = pool.sent(effects.ReleaseSlot)
    assert (order.generation, order.reason) == (
        generation,
        codes.UNKNOWN_ACCELERATOR,
    )
    pool.deliver(order)
    pool.feed(agent.report())
    assert agent.slots[0].state == states.SLOT_IDLE
    assert pool.view(request).state == states.REJECTED


def test_what_nobody_can_use_leaves_the_library_as_it_is(pool):
    approve(pool)
    before = pool.memory.catalogue.library
    for wanted in (
        create(2),
        upload(2),
        decide(2, approve=False),
        objects.DeleteBitstream(bitstream_id=samples.record(2).bitstream_id),
    ):
        assert change(pool, wanted) is None
        assert pool.memory.catalogue.library is before
    for wanted in (decide(approve=False), decide()):
        assert change(pool, wanted) is None
        assert pool.memory.catalogue.library is not before
        before = pool.memory.catalogue.library


def test_a_refusal_is_told_after_what_it_is_for_is_recorded(pool):
    wanted = (create(), upload(), upload())
    batch = [inputs.ChangeBitstream(change) for change in wanted]
    found = pool.engine.process(batch, pool.now)
    assert not found.at_once
    *done, refused = found.after_commit
    assert [answer.value for answer in done] == [None, None]
    assert refused.future is batch[-1].future
    assert refused.value.code == codes.BITSTREAM_HAS_FILE
    pool._take(found)
    pool.check()


def test_while_the_database_is_away_nothing_is_changed(pool):
    pool.memory.outages.database_failing = True
    refused = change(pool, create())
    assert refused.code == codes.DATABASE_UNAVAILABLE
    pool.memory.outages.database_failing = False
    assert change(pool, create()) is None
