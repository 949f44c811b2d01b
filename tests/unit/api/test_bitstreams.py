# SPDX-License-Identifier: Apache-2.0

"""Bitstreams over the REST API, with a real directory and real keys."""

import contextlib
import json

import pytest

from fpgapool.api import call as calls
from fpgapool.api.http import crowd
from fpgapool.api.http import errors
from fpgapool.api.http import validation
from fpgapool.bitstreams import base
from fpgapool.bitstreams import files
from fpgapool.bitstreams import signatures
from fpgapool.bitstreams import stores
from fpgapool.common import exception
from fpgapool.drivers.opencl.contents import package
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import formats
from tests.unit.api import fakes
from tests.unit.bitstreams import samples
from tests.unit.drivers.opencl import packages
from tests.unit.drivers.opencl import xclbins

DATA = b"\x00\xffbits" * 50_000
OCTETS = {"Content-Type": "application/octet-stream"}
OTHER = "root:p1:admin,manager,member,reader"

DECLARATION = {
    "format_version": 1,
    "name": "mine",
    "core": "copy",
    "peak_bytes_per_s": 5e8,
    "stateless": True,
}


class FailingStore(base.Store):
    """A store that is away."""

    def write(self, about, incoming):
        for _ in incoming:
            raise exception.StoreUnavailable(reason="full")

    def read(self, location):
        raise exception.StoreFailed(reason="lost")

    def delete(self, location):
        raise exception.StoreUnavailable(reason="away")

    def files(self):
        raise exception.StoreUnavailable(reason="away")


class Library:
    """The application with a store."""

    def __init__(self, make_world, root, *, store=None, **options) -> None:
        self.directory = root / "store"
        self.signer = samples.Signer(root / "keys")
        self.signer.trust()
        store = store or files.FileStore(self.directory)
        members = {"signature_required": False, "max_size_bytes": 10**6}
        self.files = calls.Files(
            store=store,
            trusted_keys=signatures.TrustedKeys(str(root / "keys")),
            sweeper=stores.Sweeper(store, None, 3600),  # type: ignore[arg-type]
            **{**members, **options},
        )
        self.world = make_world(files=self.files)
        self.files.sweeper._database = self.world.database
        self.ask = self.world.ask
        self.error = self.world.error

    def create(self, token=fakes.MEMBER, **members) -> dict:
        """Describe a bitstream; :returns: the document."""
        answer = self.ask("POST", "/v1/bitstreams", token, body=_body(members))
        assert answer.status_code == 201, answer.text
        (path,) = [
            link["href"].partition("localhost")[2]
            for link in answer.json["bitstream"]["links"]
        ]
        assert answer.headers["location"].endswith(path)
        return answer.json["bitstream"]

    def refused(self, token=fakes.MEMBER, **members) -> tuple[int, str]:
        return self.error("POST", "/v1/bitstreams", token, body=_body(members))

    def put(self, bitstream, data=DATA, token=fakes.MEMBER, **options):
        path = f"/v1/bitstreams/{bitstream['id']}/file"
        options.setdefault("headers", OCTETS)
        return self.ask("PUT", path, token, body=data, **options)

    def code(self, answer) -> tuple[int, str]:
        return answer.status_code, answer.json["errors"][0]["code"]

    def show(self, bitstream, token=fakes.MEMBER):
        path = f"/v1/bitstreams/{bitstream['id']}"
        return self.ask("GET", path, token).json["bitstream"]

    def act(self, bitstream, action, token=fakes.ADMIN, **members):
        return self.ask(
            "POST",
            f"/v1/bitstreams/{bitstream['id']}/{action}",
            token,
            body={action: members},
        )

    def ready(self, token=fakes.MEMBER, **members) -> dict:
        """Bring an approved bitstream."""
        made = self.create(token, **members)
        assert self.put(made, token=token).status_code == 200
        answer = self.act(made, "approve")
        assert answer.status_code == 200, answer.text
        return answer.json["bitstream"]

    def stored(self) -> list[str]:
        return [p.name for p in self.directory.rglob("*") if p.is_file()]


def _body(members) -> dict:
    values = {
        "accelerator": "mine",
        "shapes": ["medium"],
        "profile": {"peak_bytes_per_s": 1e8},
    }
    return {"bitstream": {**values, **members}}


@pytest.fixture
def pool(make_world, tmp_path):
    return Library(make_world, tmp_path)


@pytest.fixture
def strict(make_world, tmp_path):
    return Library(make_world, tmp_path, signature_required=True)


def test_the_life_of_a_bitstream(pool):
    made = pool.create(name="my own", checksum_sha256=samples.sha256(DATA))
    assert (made["state"], made["visibility"]) == ("uploading", "private")
    assert (made["key"], made["version"]) == ("mine@p1", "1.0")
    assert made["size_bytes"] is None
    full = pool.put(made).json["bitstream"]
    assert (full["state"], full["size_bytes"]) == ("unapproved", len(DATA))
    assert full["checksum_sha256"] == samples.sha256(DATA)
    approved = pool.act(made, "approve", reason="seen").json["bitstream"]
    assert (approved["state"], approved["reason"]) == ("approved", "seen")
    file = pool.ask("GET", f"/v1/bitstreams/{made['id']}/file", check=False)
    assert file.content == DATA
    assert file.headers["etag"] == f'"{samples.sha256(DATA)}"'
    assert file.headers["content-length"] == str(len(DATA))
    assert file.headers["content-type"] == "application/octet-stream"
    path = f"/v1/bitstreams/{made['id']}"
    assert pool.ask("DELETE", path).status_code == 204
    assert pool.error("GET", path) == (404, codes.BITSTREAM_NOT_FOUND)
    assert pool.stored() == []


def test_accelerators_are_those_that_the_caller_may_use(pool):
    pool.ready()
    path = "/v1/accelerators"

    def listed(token):
        found = pool.ask("GET", path, token).json["accelerators"]
        return [one["name"] for one in found]

    assert listed(fakes.MEMBER) == ["aes", "copy", "fft", "mine@p1"]
    assert listed(fakes.STRANGER) == ["aes", "copy", "fft"]
    shown = pool.ask("GET", f"{path}/mine").json["accelerator"]
    assert shown["name"] == "mine@p1"
    assert shown["shapes"] == ["medium"]
    for name in ("mine", "mine@p1"):
        assert pool.error("GET", f"{path}/{name}", fakes.STRANGER) == (
            404,
            codes.ACCELERATOR_NOT_FOUND,
        )


def test_another_projects_bitstream_does_not_exist(pool):
    made = pool.ready()
    path = f"/v1/bitstreams/{made['id']}"
    for method, suffix, body in (
        ("GET", "", None),
        ("GET", "/file", None),
        ("PATCH", "", {"bitstream": {"name": "x"}}),
        ("DELETE", "", None),
        ("PUT", "/projects/p2", None),
        ("DELETE", "/projects/p2", None),
    ):
        found = pool.error(method, path + suffix, fakes.STRANGER, body=body)
        assert found == (404, codes.BITSTREAM_NOT_FOUND)
    assert pool.code(pool.put(made, token=fakes.STRANGER)) == (
        404,
        codes.BITSTREAM_NOT_FOUND,
    )
    listed = pool.ask("GET", "/v1/bitstreams", fakes.STRANGER).json
    assert listed["bitstreams"] == []


def test_a_shared_one_can_be_seen_and_used_but_not_had(pool):
    made = pool.ready()
    path = f"/v1/bitstreams/{made['id']}"
    shared = pool.ask("PUT", f"{path}/projects/p2").json["bitstream"]
    assert (shared["visibility"], shared["projects"]) == ("shared", ["p2"])
    seen = pool.show(made, fakes.STRANGER)
    assert (seen["visibility"], seen["projects"]) == ("shared", [])
    names = pool.ask("GET", "/v1/accelerators", fakes.STRANGER).json
    assert names["accelerators"][-1]["name"] == "mine@p1"
    for method, suffix in (("GET", "/file"), ("DELETE", "")):
        assert pool.error(method, path + suffix, fakes.STRANGER) == (
            403,
            codes.FORBIDDEN,
        )
    assert pool.ask("DELETE", f"{path}/projects/p2").status_code == 204
    assert pool.error("GET", path, fakes.STRANGER)[0] == 404


def test_only_administrators_publish(pool):
    assert pool.refused(visibility="public") == (403, codes.FORBIDDEN)
    made = pool.ready()
    path = f"/v1/bitstreams/{made['id']}"
    body = {"bitstream": {"visibility": "public"}}
    assert pool.error("PATCH", path, body=body) == (403, codes.FORBIDDEN)
    public = pool.ask("PATCH", path, fakes.ADMIN, body=body).json["bitstream"]
    assert (public["visibility"], public["key"]) == ("public", "mine")
    assert pool.show(made, fakes.STRANGER)["state"] == "approved"
    body["bitstream"]["visibility"] = "private"
    assert pool.error("PATCH", path, body=body) == (403, codes.FORBIDDEN)
    own = pool.create(OTHER, visibility="public", accelerator="aes")
    assert own["key"] == "aes"


@pytest.mark.security
def test_only_agents_fetch_files_of_other_projects(pool):
    made = pool.ready()
    path = f"/v1/bitstreams/{made['id']}"
    for token in (fakes.SERVICE, fakes.NOVA):
        assert pool.error("GET", path, token) == (403, codes.FORBIDDEN)
        found = pool.error("GET", f"{path}/file", token)
        assert found == (403, codes.FORBIDDEN)
    file = pool.ask("GET", f"{path}/file", fakes.AGENT, check=False)
    assert file.content == DATA


def test_readers_bring_nothing(pool):
    assert pool.refused(fakes.READER) == (403, codes.FORBIDDEN)
    made = pool.create()
    assert pool.code(pool.put(made, token=fakes.READER))[0] == 403
    assert pool.act(made, "approve", fakes.MEMBER).status_code == 403


@pytest.mark.parametrize(
    "members",
    [
        {"accelerator": "../x"},
        {"accelerator": "a@p2"},
        {"accelerator": ""},
        {"accelerator": 5},
        {"name": "a/b"},
        {"name": "..\\b"},
        {"name": "a\nb"},
        {"name": "x" * 256},
        {"name": "\ud800"},
        {"description": "\x1b[2J"},
        {"description": "x" * 1001},
        {"version": "new"},
        {"version": "1/2"},
        {"shapes": "medium"},
        {"shapes": ["x"] * 65},
        {"visibility": "shared"},
        {"format": "zip"},
        {"profile": {}},
        {"profile": {"peak_bytes_per_s": 0}},
        {"profile": {"peak_bytes_per_s": 1e999}},
        {"profile": {"peak_bytes_per_s": 1, "name": "aes"}},
        {
            "profile": {
                "peak_bytes_per_s": 1,
                "params_schema": {"pattern": "(a+)+$"},
            }
        },
        {
            "profile": {
                "peak_bytes_per_s": 1,
                "params_schema": {"$ref": "http://example.org/"},
            }
        },
        {"properties": {"vendor": "a\0b"}},
        {"properties": {"bs-uuid": "x"}},
        {"checksum_sha256": "AB" * 32},
        {"signature": "no base64!"},
        {"size_bytes": 5},
        {"id": "x"},
    ],
)
def test_bad_descriptions(pool, members):
    assert pool.refused(**members) == (400, codes.INVALID_REQUEST)
    assert pool.ask("GET", "/v1/bitstreams").json["bitstreams"] == []


def test_a_shape_that_is_named_twice_counts_once(pool):
    made = pool.create(shapes=["small", "medium", "small"])
    assert made["shapes"] == ["small", "medium"]


def test_ten_thousand_odd_shapes(pool):
    found = pool.refused(shapes=[[]] * 10_000)
    assert found == (400, codes.INVALID_REQUEST)


def test_not_all_errors_of_a_document_are_looked_for(monkeypatch):
    checker = validation.Checker({"items": {"type": "string"}})
    real, found = checker._validator.iter_errors, []

    class Counting:
        def iter_errors(self, document):
            for error in real(document):
                found.append(error)
                yield error

    monkeypatch.setattr(checker, "_validator", Counting())
    with pytest.raises(errors.ApiError, match="string"):
        checker.check([5] * 10_000, "body")
    assert len(found) < 1000


def test_a_wrong_checksum(pool):
    made = pool.create(checksum_sha256=samples.sha256(b"another"))
    assert pool.code(pool.put(made)) == (400, codes.CHECKSUM_MISMATCH)
    assert pool.stored() == []
    assert pool.show(made)["state"] == "uploading"


def test_a_second_file_is_refused_and_the_first_one_stays(pool):
    made = pool.create()
    assert pool.put(made).status_code == 200
    assert pool.code(pool.put(made)) == (409, codes.BITSTREAM_HAS_FILE)
    assert len(pool.stored()) == 1


def test_two_uploads_at_once_leave_the_winners_file(pool):
    """Whoever comes second finds that out at the end only."""
    made = pool.create()
    conductor = pool.world.conductor
    change = conductor.change_bitstream

    def twice(wanted):
        change(wanted)
        change(wanted)

    conductor.change_bitstream = twice
    assert pool.code(pool.put(made)) == (409, codes.BITSTREAM_HAS_FILE)
    assert len(pool.stored()) == 1
    file = pool.ask("GET", f"/v1/bitstreams/{made['id']}/file", check=False)
    assert file.content == DATA


def test_what_is_too_large(pool):
    made = pool.create()
    large = bytes(10**6 + 1)
    assert pool.code(pool.put(made, large)) == (
        413,
        codes.BITSTREAM_TOO_LARGE,
    )
    assert pool.stored() == []
    assert pool.put(made, large[:-1]).status_code == 200


@pytest.mark.parametrize("length", ["999999", "0"])
def test_lengths_that_are_not_true(pool, length):
    made = pool.create()
    answer = pool.put(made, headers={**OCTETS, "Content-Length": length})
    assert pool.code(answer) == (400, codes.UPLOAD_INCOMPLETE)
    assert pool.stored() == []
    assert pool.show(made)["state"] == "uploading"


def test_few_uploads_at_a_time(make_world, tmp_path):
    places = crowd.Crowd("uploads", codes.TOO_MANY_UPLOADS, 1, 2)
    pool = Library(make_world, tmp_path, uploads=places)
    made = pool.create(checksum_sha256=samples.sha256(DATA))
    others = [
        # Its own, and two of others where there are two places.
        ["p1"],
        ["other", "third"],
    ]
    for projects in others:
        with contextlib.ExitStack() as stack:
            for project_id in projects:
                stack.enter_context(places.place(project_id))
            answer = pool.put(made)
        assert pool.code(answer) == (503, codes.TOO_MANY_UPLOADS)
        assert int(answer.headers["retry-after"]) > 0
        assert pool.stored() == []
    # One that fails leaves its place, too.
    assert pool.code(pool.put(made, b"another"))[0] == 400
    with places.place("other"):
        assert pool.put(made).status_code == 200
    with places.place("p1"):
        pass


def test_an_upload_that_takes_too_long(make_world, tmp_path):
    pool = Library(make_world, tmp_path, upload_timeout_s=-1.0)
    made = pool.create()
    assert pool.code(pool.put(made)) == (400, codes.UPLOAD_INCOMPLETE)
    assert pool.stored() == []
    assert pool.show(made)["state"] == "uploading"


def test_a_wrong_type(pool):
    made = pool.create()
    wrong = {"Content-Type": "application/json"}
    assert pool.code(pool.put(made, headers=wrong)) == (
        415,
        codes.UNSUPPORTED_MEDIA_TYPE,
    )


def test_a_body_without_an_end(pool):
    made = pool.create()
    path = f"/v1/bitstreams/{made['id']}/file"
    answer = pool.ask("PUT", path, headers=OCTETS, check=False)
    assert pool.code(answer) == (411, codes.LENGTH_REQUIRED)


def test_a_store_that_is_away_changes_nothing(make_world, tmp_path):
    pool = Library(make_world, tmp_path, store=FailingStore())
    made = pool.create()
    assert pool.code(pool.put(made)) == (503, codes.STORE_UNAVAILABLE)
    assert pool.show(made)["state"] == "uploading"
    path = f"/v1/bitstreams/{made['id']}"
    assert pool.error("GET", f"{path}/file") == (
        409,
        codes.BITSTREAM_HAS_NO_FILE,
    )
    assert pool.ask("DELETE", path).status_code == 204


def test_a_lost_file(make_world, tmp_path):
    pool = Library(make_world, tmp_path)
    made = pool.ready()
    for path in pool.directory.rglob("*.*"):
        path.unlink()
    assert pool.error("GET", f"/v1/bitstreams/{made['id']}/file") == (
        502,
        codes.STORE_FAILED,
    )


def test_a_conductor_that_is_away_keeps_the_file_for_the_sweeper(pool):
    made = pool.create()
    pool.world.conductor.failure = fakes.UNAVAILABLE
    assert pool.code(pool.put(made)) == (503, codes.DATABASE_UNAVAILABLE)
    # It may have been written down.
    assert len(pool.stored()) == 1
    pool.world.conductor.failure = None
    assert pool.put(made).status_code == 200
    assert len(pool.stored()) == 1


def test_signatures_are_required(strict):
    checksum = samples.sha256(DATA)
    assert strict.refused() == (400, codes.SIGNATURE_REQUIRED)
    stranger = samples.Signer(strict.signer.directory)
    for signature in (
        signatures.sign(stranger.private_pem, checksum),
        signatures.sign(strict.signer.private_pem, samples.sha256(b"x")),
    ):
        made = strict.create(signature=signature)
        assert strict.code(strict.put(made)) == (
            400,
            codes.INVALID_SIGNATURE,
        )
        assert strict.stored() == []
    signature = signatures.sign(strict.signer.private_pem, checksum)
    made = strict.create(signature=signature)
    assert strict.put(made).json["bitstream"]["signed_by"] == "release"
    assert strict.act(made, "approve").status_code == 200


def test_the_signature_is_checked_again_at_the_approval(strict):
    signature = signatures.sign(
        strict.signer.private_pem, samples.sha256(DATA)
    )
    made = strict.create(signature=signature)
    assert strict.put(made).status_code == 200
    (strict.signer.directory / "release.pem").unlink()
    answer = strict.act(made, "approve")
    assert strict.code(answer) == (400, codes.INVALID_SIGNATURE)
    assert strict.show(made)["state"] == "unapproved"


def test_a_wrong_signature_is_wrong_even_if_none_is_needed(pool):
    made = pool.create(signature="AAAA")
    assert pool.code(pool.put(made)) == (400, codes.INVALID_SIGNATURE)


def test_what_fits_no_slot(pool):
    made = pool.create(shapes=["huge"])
    assert pool.put(made).json["bitstream"]["compatible"] is False
    assert pool.code(pool.act(made, "approve")) == (
        409,
        codes.NO_COMPATIBLE_SLOT,
    )
    assert pool.act(made, "approve", force=True).status_code == 200


def test_what_runs_is_not_deleted(pool):
    made = pool.ready()
    pool.world.conductor.running.add(made["id"])
    assert pool.error("DELETE", f"/v1/bitstreams/{made['id']}") == (
        409,
        codes.BITSTREAM_IN_USE,
    )
    assert len(pool.stored()) == 1


def declare(pool, document, **members):
    made = pool.create(format="declaration", profile={}, **members)
    return made, pool.put(made, json.dumps(document).encode())


def test_a_declaration_brings_its_profile(pool):
    made, answer = declare(pool, DECLARATION)
    assert answer.status_code == 200, answer.text
    profile = answer.json["bitstream"]["profile"]
    assert (profile["peak_bytes_per_s"], profile["core"]) == (5e8, "copy")
    pool.act(made, "approve")
    shown = pool.ask("GET", "/v1/accelerators/mine").json["accelerator"]
    assert shown["stateless"] is True


def test_resources_say_which_slots_a_declaration_fits(pool):
    small = {**DECLARATION, "resources": {"lut": 100}}
    made, answer = declare(pool, small, shapes=[])
    assert answer.json["bitstream"]["shapes"] == ["medium"]
    large = {**DECLARATION, "resources": {"lut": 101}}
    for shapes in ([], ["medium"]):
        made, answer = declare(pool, large, shapes=shapes)
        assert answer.status_code == 400
        assert pool.show(made)["state"] == "uploading"
    made, answer = declare(pool, large, shapes=["not here yet"])
    assert answer.json["bitstream"]["compatible"] is False


@pytest.mark.parametrize(
    "document",
    [{}, {**DECLARATION, "name": "aes"}, [], {**DECLARATION, "core": "a:b"}],
)
def test_declarations_that_are_none(pool, document):
    made, answer = declare(pool, document)
    assert pool.code(answer) == (400, codes.INVALID_DECLARATION)
    assert pool.stored() == []
    assert pool.show(made)["state"] == "uploading"


def test_a_declaration_must_agree_with_its_description(pool):
    made = pool.create(format="declaration", profile={"peak_bytes_per_s": 1e6})
    answer = pool.put(made, json.dumps(DECLARATION).encode())
    assert pool.code(answer) == (400, codes.INVALID_DECLARATION)
    large = pool.put(made, bytes(70_000))
    assert pool.code(large) == (413, codes.BITSTREAM_TOO_LARGE)


def packaged(pool, data, **members):
    """Upload a package, signed by a trusted key."""
    checksum = samples.sha256(data)
    usual = {
        "format": "opencl-source",
        "profile": {},
        "signature": signatures.sign(pool.signer.private_pem, checksum),
    }
    made = pool.create(**{**usual, **members})
    return made, pool.put(made, data)


def test_a_package_brings_its_profile(pool):
    made, answer = packaged(pool, packages.source())
    assert answer.status_code == 200, answer.text
    shown = answer.json["bitstream"]
    assert (shown["format"], shown["signed_by"]) == (
        "opencl-source",
        "release",
    )
    assert shown["profile"]["chunk_multiple_bytes"] == 4
    assert pool.act(made, "approve").status_code == 200
    shown = pool.ask("GET", "/v1/accelerators/mine").json["accelerator"]
    assert (shown["stateless"], shown["peak_bytes_per_s"]) == (True, 5e8)
    assert shown["params_schema"]["required"] == ["amount"]


@pytest.mark.parametrize(
    ("data", "members", "code"),
    [
        (packages.source()[:-1], {}, codes.INVALID_PACKAGE),
        (packages.source(), {"format": "xclbin"}, codes.INVALID_PACKAGE),
        (packages.source(name="other"), {}, codes.INVALID_MANIFEST),
        (
            packages.source().replace(b'"amount"', b'"amuont"', 1),
            {},
            codes.INVALID_MANIFEST,
        ),
        (packages.source(peak_bytes_per_s=None), {}, codes.INVALID_REQUEST),
        (
            package.pack(
                "xclbin", packages.manifest(kernel="vadd"), xclbins.write()
            ),
            {"format": "xclbin", "shapes": ["Xilinx-another"]},
            codes.XCLBIN_OTHER_PLATFORM,
        ),
    ],
)
def test_wrong_packages(pool, data, members, code):
    made, answer = packaged(pool, data, **members)
    assert pool.code(answer) == (400, code)
    assert pool.stored() == []
    assert pool.show(made)["state"] == "uploading"


@pytest.mark.security
@pytest.mark.parametrize("file_format", formats.NATIVE_CODE)
def test_native_code_is_signed_even_if_nothing_else_is(pool, file_format):
    assert pool.refused(format=file_format) == (400, codes.SIGNATURE_REQUIRED)
    data = packages.source()
    stranger = samples.Signer(pool.signer.directory)
    signature = signatures.sign(stranger.private_pem, samples.sha256(data))
    _, answer = packaged(pool, data, format=file_format, signature=signature)
    assert pool.code(answer) == (400, codes.INVALID_SIGNATURE)
    assert pool.stored() == []


@pytest.mark.security
def test_a_key_that_was_withdrawn_approves_no_native_code(pool):
    made, _ = packaged(pool, packages.source())
    (pool.signer.directory / "release.pem").unlink()
    refusal = pool.code(pool.act(made, "approve"))
    assert refusal == (400, codes.INVALID_SIGNATURE)


def test_few_files_at_a_time_are_checked(make_world, tmp_path):
    places = crowd.Crowd("uploads", codes.TOO_MANY_UPLOADS, 1, 2)

    class Store(files.FileStore):
        taken = 0

        def read(self, location):
            with pytest.raises(errors.ApiError, match="too many uploads"):
                places.place("p1").__enter__()
            self.taken += 1
            return super().read(location)

    store = Store(tmp_path / "store")
    pool = Library(make_world, tmp_path, uploads=places, store=store)
    _, answer = packaged(pool, packages.source())
    assert (answer.status_code, store.taken) == (200, 1)


def test_an_xclbin_follows_the_configuration(pool, strict):
    manifest = packages.manifest(kernel="vadd")
    data = package.pack("xclbin", manifest, xclbins.write())
    made = pool.create(format="xclbin", shapes=[], profile={})
    shown = pool.put(made, data).json["bitstream"]
    assert shown["shapes"] == [f"Xilinx-{xclbins.PLATFORM}"]
    assert strict.refused(format="xclbin") == (400, codes.SIGNATURE_REQUIRED)


def test_lists_can_be_filtered_and_paged(pool):
    names = [
        pool.create(name=f"n{number}", accelerator=f"a{number % 2}")["name"]
        for number in range(4)
    ]
    path = "/v1/bitstreams?sort_key=name"

    def listed(query="", token=fakes.MEMBER):
        answer = pool.ask("GET", path + query, token).json
        return [one["name"] for one in answer["bitstreams"]], answer

    assert listed()[0] == names
    assert listed("&accelerator=a1")[0] == ["n1", "n3"]
    assert listed("&state=approved")[0] == []
    assert listed("&visibility=private&shape=medium&name=n2")[0] == ["n2"]
    assert listed("&shape=huge")[0] == []
    first, answer = listed("&limit=3")
    (link,) = answer["bitstreams_links"]
    rest = pool.ask("GET", link["href"].partition("localhost")[2]).json
    assert first + [o["name"] for o in rest["bitstreams"]] == names
    assert listed(token=fakes.STRANGER)[0] == []
    assert pool.error("GET", f"{path}&all_projects=true") == (
        403,
        codes.FORBIDDEN,
    )
    assert listed("&all_projects=true", fakes.ADMIN)[0] == names


def test_decisions_and_deletions_are_in_the_audit_log(pool, caplog):
    caplog.set_level("INFO")
    made = pool.ready()
    pool.act(made, "reject", reason="bad")
    pool.ask("DELETE", f"/v1/bitstreams/{made['id']}")
    lines = [
        json.loads(record.message)
        for record in caplog.records
        if record.name == "fpgapool.audit"
    ]
    actions = [line["action"] for line in lines]
    for word in ("approve", "reject", "delete"):
        assert any(word in action for action in actions), actions
    assert all(line["outcome"] == "done" for line in lines)
    approved, rejected, deleted = lines
    assert approved["before"] == {"state": "unapproved"}
    assert rejected["before"] == {"state": "approved"}
    assert rejected["values"] == {"reject": {"reason": "bad"}}
    assert deleted["target"]["bitstream_id"] == made["id"]


def test_a_pool_without_a_store(make_world):
    world = make_world()
    assert world.error("POST", "/v1/bitstreams", body=_body({})) == (
        503,
        codes.STORE_UNAVAILABLE,
    )
