# SPDX-License-Identifier: Apache-2.0

"""What sessions can ask for, and which file a slot gets."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgapool import objects
from fpgapool.bitstreams import library
from fpgapool.db import api as db_api
from fpgapool.vocabulary import names
from tests.unit.bitstreams import samples


def make(*records, builtin=(samples.BUILTIN,)):
    return library.Library(builtin, records)


def test_a_name_is_ones_own_before_the_public_one():
    found = make(samples.record(1, accelerator="aes"))
    assert found.resolve("aes", "p1") == "aes@p1"
    assert found.resolve("aes", "p2") == "aes"
    assert found.resolve("aes@p1", "p1") == "aes@p1"


def test_another_projects_does_not_exist_unless_it_is_shared():
    private = make(samples.record(1))
    for name in ("mine", "mine@p1", "mine@p2", "other"):
        assert private.resolve(name, "p2") is None
    shared = make(samples.record(1, projects=["p2"]))
    assert shared.resolve("mine@p1", "p2") == "mine@p1"
    # By the plain name nobody gets what is another project's.
    assert shared.resolve("mine", "p2") is None
    assert shared.resolve("mine@p1", "p3") is None
    assert set(shared.visible("p2")) == {"aes", "mine@p1"}
    assert set(shared.visible("p3")) == {"aes"}


@pytest.mark.parametrize(
    "state", [library.UPLOADING, library.UNAPPROVED, library.REJECTED]
)
def test_only_what_is_approved_is_there(state):
    found = make(samples.record(1, state=state))
    assert found.resolve("mine", "p1") is None
    assert found.choose("mine@p1", "medium") is None


def test_versions_are_compared_as_versions():
    found = make(
        samples.record(1, version="1.9"),
        samples.record(2, version="1.10"),
        samples.record(3, version="1.10rc1"),
    )
    chosen = found.choose("mine@p1", "medium")
    assert chosen.bitstream_id == samples.record(2).bitstream_id


def test_of_equal_versions_the_later_one_wins():
    found = make(samples.record(2), samples.record(1))
    chosen = found.choose("mine@p1", "medium")
    assert chosen == objects.BitstreamRef(
        bitstream_id=samples.record(2).bitstream_id,
        checksum_sha256=samples.sha256(b"2"),
        size_bytes=10,
        format="binary",
    )


def test_an_older_version_serves_the_shapes_that_the_newest_does_not_fit():
    found = make(
        samples.record(1, version="1", shapes=["small", "medium"]),
        samples.record(2, version="2", shapes=["medium"]),
    )
    assert found.profiles["mine@p1"].shapes == ("medium", "small")
    first, second = samples.record(1), samples.record(2)
    for shape, record in (("small", first), ("medium", second)):
        assert found.choose("mine@p1", shape).bitstream_id == (
            record.bitstream_id
        )
    assert found.choose("mine@p1", "large") is None


def test_a_public_one_is_a_further_implementation():
    found = make(samples.record(1, accelerator="aes", public=True))
    # What fits every slot by itself still does.
    assert found.profiles["aes"].shapes == ()
    assert found.profiles["aes"].peak_bytes_per_s == 1e9
    assert found.choose("aes", "medium") is not None
    assert found.choose("aes", "large") is None


def test_the_newest_version_says_what_an_accelerator_is_like():
    found = make(
        samples.record(2, version="2", profile={"peak_bytes_per_s": 5}),
        samples.record(1, version="1"),
    )
    profile = found.profiles["mine@p1"]
    assert (profile.peak_bytes_per_s, profile.core) == (5.0, "")
    assert profile.projects == ("p1",)
    wire = json.loads(json.dumps(profile.to_primitive()))
    assert objects.AcceleratorProfile.from_primitive(wire) == profile


def test_visibility():
    private = samples.record(1)
    assert library.is_visible(private, "p1")
    assert not library.is_visible(private, "p2")
    shared = samples.record(1, projects=["p2"])
    assert library.is_visible(shared, "p2")
    assert not library.is_visible(shared, "p3")
    public = samples.record(1, public=True)
    assert library.is_visible(public, "p3")
    waiting = samples.record(1, public=True, state=library.UNAPPROVED)
    assert not library.is_visible(waiting, "p3")
    assert [library.visibility_of(r) for r in (private, shared, public)] == [
        "private",
        "shared",
        "public",
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("peak_bytes_per_s", 0),
        ("peak_bytes_per_s", True),
        ("peak_bytes_per_s", float("nan")),
        ("peak_bytes_per_s", 10**400),
        ("return_ratio", -1),
        ("stateless", 1),
        ("params_schema", []),
        ("core", None),
        ("chunk_multiple_bytes", 0),
        ("chunk_multiple_bytes", 1.5),
    ],
)
def test_profiles_that_are_none(name, value):
    with pytest.raises(ValueError, match=f"profile.{name}"):
        library.check_profile({name: value})


def test_unknown_members_of_profiles_are_refused():
    with pytest.raises(ValueError, match="profile: unknown member 'shapes'"):
        library.check_profile({"shapes": ["small"]})


records = st.builds(
    samples.record,
    st.integers(1, 40),
    accelerator=st.sampled_from(["mine", "aes"]),
    project_id=st.sampled_from(["p1", "p2"]),
    public=st.booleans(),
    projects=st.lists(st.sampled_from(["p1", "p2", "p3"]), max_size=2),
    state=st.sampled_from(library.STATES),
    shapes=st.lists(st.sampled_from(["s", "m", "l"]), min_size=1, unique=True),
    version=st.sampled_from(["1", "1.2", "1.10", "2rc1", "2"]),
)


@given(st.lists(records, max_size=12, unique_by=lambda r: r.id))
def test_what_is_chosen_is_the_newest_that_fits(found):
    made = make(*found)
    for key in made.profiles:
        for shape in "sml":
            fitting = [
                one
                for one in found
                if one.state == library.APPROVED
                and library.key_of(one) == key
                and shape in one.shapes
            ]
            chosen = made.choose(key, shape)
            if not fitting:
                assert chosen is None
                continue
            best = max(fitting, key=library.rank)
            assert chosen.bitstream_id == best.bitstream_id
            profile = made.profiles[key]
            assert not profile.shapes or shape in profile.shapes


@given(st.lists(records, max_size=12, unique_by=lambda r: r.id))
def test_nobody_may_use_what_nobody_gave_them(found):
    made = make(*found)
    for project in ("p1", "p2", "p3", "p4"):
        for key in made.visible(project):
            owner = names.owner_of(key)
            if owner in (None, project):
                continue
            assert any(
                project in one.projects
                for one in found
                if library.key_of(one) == key and one.state == library.APPROVED
            )


WORDS = {"enum": ["sha1", "sha256", "md5"], "default": "sha1"}
HASHES = db_api.AcceleratorRecord(
    name="sha",
    profile={
        **samples.BUILTIN.profile,
        "params_schema": {
            "required": ["salt"],
            "properties": {"salt": {"type": "string"}, "algorithm": WORDS},
        },
    },
)


def narrowed(builtins, *records, **profile):
    """Return the shapes of sha, and its values, with the default first."""
    record = db_api.AcceleratorRecord(
        name="sha", profile={**HASHES.profile, **profile}
    )
    read = {
        shape: library.read_builtins(each) for shape, each in builtins.items()
    }
    found = library.Library([record], records, read).profiles["sha"]
    algorithm = found.params_schema["properties"]["algorithm"]
    if "default" not in algorithm:
        assert found.params_schema["required"] == ["salt", "algorithm"]
    return found.shapes, algorithm["enum"], algorithm.get("default")


ALL = ["sha1", "sha256", "md5"]


@pytest.mark.parametrize(
    ("builtins", "shapes", "values", "default"),
    [
        ({}, (), ALL, "sha1"),
        ({"a": None, "b": {"sha": {}}}, (), ALL, "sha1"),
        ({"a": None, "b": {"aes": {}}}, ("a",), ALL, "sha1"),
        ({"a": {}, "b": {"aes": {}}}, ("-",), ALL, "sha1"),
        ({"a": {"sha": {"algorithm": ["sha256"]}}}, (), ["sha256"], None),
        (
            {"a": {"sha": {"algorithm": ["md5", "sha1"]}}},
            (),
            ["sha1", "md5"],
            "sha1",
        ),
        # The slots that take the most.
        (
            {"a": {"sha": {"algorithm": ["sha256"]}}, "b": {"sha": {}}},
            ("b",),
            ALL,
            "sha1",
        ),
        ({"a": {"sha": {"algorithm": ["other"]}}}, ("-",), ALL, "sha1"),
        # What makes no sense restricts nothing.
        ({"a": {"sha": {"algorithm": 7, "salt": ["x"]}}}, (), ALL, "sha1"),
    ],
)
def test_what_slots_lack_is_not_offered(builtins, shapes, values, default):
    assert narrowed(builtins) == (shapes, values, default)


def test_a_file_makes_up_for_what_a_slot_lacks():
    lacking = {"a": {}, "b": {"sha": {"algorithm": ["md5"]}}}
    file = samples.record(1, accelerator="sha", public=True, shapes=["a"])
    assert narrowed(lacking, file) == (("a",), ALL, "sha1")
    assert narrowed(lacking) == (("b",), ["md5"], None)
    # A profile's own shapes count, too.
    assert narrowed(lacking, shapes=["a"])[0] == ("-",)
    assert narrowed({"a": {"sha": {}}}, shapes=["b"])[0] == ("b",)


def test_slots_of_one_shape_run_what_all_of_them_run():
    first, second = map(
        library.read_builtins,
        (
            {"aes": {}, "sha": {"algorithm": ["md5", "sha1"]}},
            {"sha": {"algorithm": ["md5"], "mode": ["x"]}, "copy": {}},
        ),
    )
    both = {"sha": {"algorithm": {"md5"}, "mode": {"x"}}}
    assert library.common(first, second) == both
    assert library.common(None, second) == library.common(second, None)
    assert library.common(None, second) == second
