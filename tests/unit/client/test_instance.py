# SPDX-License-Identifier: Apache-2.0

"""How a program inside an instance finds the pool."""

import gc
import http.server
import json
import pathlib
import threading
import time
import weakref

import pytest

from fpgapool import client
from fpgapool.client import cancel
from fpgapool.client import discovery
from fpgapool.client import errors
from fpgapool.client.doors import door
from fpgapool.client.doors import frontdoor
from fpgapool.client.doors import instance
from fpgapool.client.doors import poolapi
from fpgapool.vocabulary import codes
from tests.harness import waiting

FOUND = {
    "api_url": "http://api.example.org:8778",
    "instance_token": "fpi_x",
    "accelerators": ["aes"],
}


class Service:
    """An HTTP server that answers what it is told, in turn."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str], bytes]] = []
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.pause = threading.Event()
        self.pause.set()
        self.on_request = lambda: None
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                service.asked.append(
                    (
                        self.command,
                        self.path,
                        dict(self.headers.items()),
                        self.rfile.read(length),
                    )
                )
                service.on_request()
                service.pause.wait(30)
                status, headers, body = service.answers.pop(0)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_DELETE = answer

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), Handler
        )
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,)
        )
        self._thread.start()

    def close(self) -> None:
        self.pause.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def service():
    made = Service()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """Nothing leads to a pool unless a test says so."""
    for name in (
        "FPGAPOOL_SOCKET",
        "OS_CLOUD",
        "OS_AUTH_URL",
        instance.API_URL,
        instance.TOKEN,
        instance.CA_FILE,
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(instance.METADATA_URL, "")
    monkeypatch.setenv(instance.CONFIG_DRIVE, str(tmp_path / "no-drive"))
    monkeypatch.setattr(frontdoor, "candidate_paths", lambda: ["/nowhere"])
    monkeypatch.setattr(instance, "FINDER", instance.Finder())


def put_drive(root: pathlib.Path, document: object = FOUND) -> None:
    path = root / "openstack" / "latest"
    path.mkdir(parents=True)
    content = json.dumps({"fpgapool": document, "others": {}})
    (path / "vendor_data2.json").write_text(content)


def adapter_of(api: object) -> instance.TokenAdapter:
    assert isinstance(api, poolapi.PoolApi)
    adapter = api._adapter
    assert isinstance(adapter, instance.TokenAdapter)
    return adapter


# -- the order ---------------------------------------------------------------


def test_the_order_in_which_is_looked(monkeypatch, tmp_path, service):
    put_drive(tmp_path / "drive", {**FOUND, "api_url": "http://drive"})
    served = {"fpgapool": {**FOUND, "api_url": "http://service"}}
    service.answers.append((200, {}, json.dumps(served).encode()))

    def found() -> object:
        what = discovery.find(instance.Finder())
        if isinstance(what, str):
            return what
        if isinstance(what._adapter, instance.TokenAdapter):
            return what._adapter._credentials.api_url
        return type(what._adapter).__name__

    monkeypatch.setenv(instance.METADATA_URL, service.url)
    assert found() == "http://service"
    monkeypatch.setenv(instance.CONFIG_DRIVE, str(tmp_path / "drive"))
    assert found() == "http://drive"
    monkeypatch.setattr(
        poolapi.PoolApi, "from_cloud", lambda name=None: "a cloud"
    )
    monkeypatch.setenv("OS_CLOUD", "mine")
    assert found() == "a cloud"
    monkeypatch.setenv(instance.API_URL, "http://named")
    assert found() == "Adapter"
    monkeypatch.setenv(instance.TOKEN, "fpi_y")
    assert found() == "http://named"
    monkeypatch.setenv("FPGAPOOL_SOCKET", "/a/socket")
    assert found() == "/a/socket"
    # The metadata service was not asked where it was not needed.
    assert len(service.asked) == 1


def test_the_error_says_what_to_do(monkeypatch, tmp_path):
    """Where nothing is, and where it was looked for, is for --verbose."""
    monkeypatch.delenv(instance.METADATA_URL)
    with pytest.raises(errors.FrontDoorUnavailable) as caught:
        discovery.find(instance.Finder(is_instance=lambda: False))
    assert caught.value.message == (
        "No pool found. Start one: fpgapool-allinone, or set FPGAPOOL_SOCKET,"
        " FPGAPOOL_API_URL or OS_CLOUD"
    )
    assert [place.name for place in caught.value.places] == [
        "/nowhere",
        str(tmp_path / "no-drive"),
        f"{instance.DEFAULT_METADATA_URL}/openstack/latest/vendor_data2.json",
    ]
    assert not any(place.notable for place in caught.value.places)
    assert "no instance of OpenStack" in caught.value.places[-1].why


def test_the_error_says_what_is_wrong_with_what_is_there(
    monkeypatch, tmp_path
):
    (tmp_path / "socket").touch()
    paths = [str(tmp_path / "none"), str(tmp_path / "socket")]
    monkeypatch.setattr(frontdoor, "candidate_paths", lambda: paths)
    monkeypatch.setenv(instance.METADATA_URL, "http://127.0.0.1:9")
    with pytest.raises(errors.FrontDoorUnavailable) as caught:
        discovery.find(instance.Finder())
    assert caught.value.message.startswith("No pool found. Start one: ")
    for word in (
        f"{paths[1]} (is not a socket)",
        "http://127.0.0.1:9/openstack/latest/vendor_data2.json",
        "ConnectionRefusedError",
    ):
        assert word in caught.value.message
    assert paths[0] not in caught.value.message


@pytest.mark.parametrize("is_instance", [True, False])
def test_only_instances_ask_at_the_usual_address(
    monkeypatch, service, is_instance
):
    monkeypatch.delenv(instance.METADATA_URL)
    monkeypatch.setattr(instance, "DEFAULT_METADATA_URL", service.url)
    content = json.dumps({"fpgapool": FOUND}).encode()
    service.answers.append((200, {}, content))
    finder = instance.Finder(is_instance=lambda: is_instance)
    assert (finder.find()[0] is not None) == is_instance
    assert len(service.asked) == is_instance


def test_an_address_that_is_set_is_asked_anywhere(monkeypatch, service):
    monkeypatch.setenv(instance.METADATA_URL, service.url)
    content = json.dumps({"fpgapool": FOUND}).encode()
    service.answers.append((200, {}, content))
    finder = instance.Finder(is_instance=lambda: False)
    assert finder.find()[0] is not None


def test_a_fallback_still_works_where_there_is_no_pool():
    with client.acc_open("copy", 4, fallback="cpu") as session:
        assert session.fallback_reason == codes.FRONT_DOOR_UNAVAILABLE


# -- the places --------------------------------------------------------------


def test_a_config_drive_that_is_mounted_is_found(monkeypatch, tmp_path):
    monkeypatch.delenv(instance.CONFIG_DRIVE)
    device = tmp_path / "sr0"
    device.touch()
    (tmp_path / "config-2").symlink_to(device)
    drive = tmp_path / "a drive"
    put_drive(drive)
    mounts = tmp_path / "mounts"
    point = str(drive).replace(" ", "\\040")
    mounts.write_text(
        f"proc /proc proc rw 0 0\n/dev/vda1 / ext4 rw 0 0\n"
        f"{device} {point} iso9660 ro 0 0\n"
    )
    monkeypatch.setattr(instance, "_LABELS", (str(tmp_path / "config-2"),))
    monkeypatch.setattr(instance, "_MOUNTS", str(mounts))
    credentials, places = instance.Finder().find()
    assert credentials == instance.Credentials(
        FOUND["api_url"], FOUND["instance_token"]
    )
    assert places == []


def test_without_a_table_of_mounts_the_usual_places_are_looked_at(
    monkeypatch, tmp_path
):
    monkeypatch.delenv(instance.CONFIG_DRIVE)
    monkeypatch.setattr(instance, "_MOUNTS", str(tmp_path / "none"))
    _, places = instance.Finder().find()
    assert [place.name for place in places] == list(instance._MOUNT_POINTS)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "no data about the pool"),
        (b"{}", "no data about the pool"),
        (b'{"fpgapool": {}}', "no token for this instance"),
        (b'{"fpgapool": []}', "no data about the pool"),
        (
            b'{"fpgapool": {"api_url": "http://a"}}',
            "invalid data about the pool",
        ),
        (
            b'{"fpgapool": {"api_url": 5, "instance_token": "x"}}',
            "invalid data about the pool",
        ),
        (
            b'{"fpgapool": {"api_url": "file:///", "instance_token": "x"}}',
            "invalid data about the pool",
        ),
        (
            b'{"fpgapool": {"api_url": "http://a", "instance_token": "x",'
            b' "ca_cert": 1}}',
            "invalid data about the pool",
        ),
    ],
    ids=range(11),
)
def test_what_is_no_vendordata(monkeypatch, service, content, reason):
    monkeypatch.setenv(instance.METADATA_URL, service.url)
    service.answers.append((200, {}, content))
    credentials, places = instance.Finder().find()
    assert credentials is None
    assert reason in places[-1].why


@pytest.mark.parametrize(
    ("status", "headers"),
    [(404, {}), (500, {}), (302, {"Location": "http://127.0.0.1:9/"})],
)
def test_a_metadata_service_without_it(monkeypatch, service, status, headers):
    monkeypatch.setenv(instance.METADATA_URL, service.url)
    service.answers.append((status, headers, b"{}"))
    _, places = instance.Finder().find()
    assert f"HTTP {status}" in places[-1].why


def test_a_metadata_service_that_does_not_answer(monkeypatch, service):
    monkeypatch.setattr(instance, "_METADATA_S", 0.1)
    monkeypatch.setenv(instance.METADATA_URL, service.url)
    service.pause.clear()
    _, places = instance.Finder().find()
    assert "timed out" in places[-1].why
    service.answers.append((200, {}, b""))


def test_a_service_has_longer_to_answer_than_to_connect(monkeypatch, service):
    monkeypatch.setattr(instance, "_CONNECT_S", 0.1)
    monkeypatch.setenv(instance.METADATA_URL, service.url)
    content = json.dumps({"fpgapool": FOUND}).encode()
    service.answers.append((200, {}, content))
    service.on_request = lambda: waiting.pause(0.2)
    credentials, _ = instance.Finder().find()
    assert credentials is not None


def test_proxies_are_not_asked(monkeypatch, service):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv(instance.METADATA_URL, service.url)
    content = json.dumps({"fpgapool": FOUND}).encode()
    service.answers.append((200, {}, content))
    credentials, _ = instance.Finder().find()
    assert credentials is not None


def test_what_was_found_is_remembered_until_it_is_refused(
    monkeypatch, service
):
    now = [100.0]
    finder = instance.Finder(lambda: now[0])
    monkeypatch.setenv(instance.METADATA_URL, service.url)
    content = json.dumps({"fpgapool": FOUND}).encode()
    service.answers += [(404, {}, b""), (200, {}, content)]
    for _ in range(3):
        assert finder.find()[0] is None
    assert len(service.asked) == 1
    now[0] += 11
    for _ in range(3):
        assert finder.find()[0] is not None
    assert len(service.asked) == 2
    service.answers.append((404, {}, b""))
    (found, _) = finder.find()
    assert finder.find(refused=[found])[0] is None


# -- vendordata that holds nothing yet ----------------------------------------

EMPTY = (200, {}, b'{"fpgapool": {}}')
FULL = (200, {}, json.dumps({"fpgapool": FOUND}).encode())


class Clock:
    """Time that passes while a program pauses."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.pauses_s: list[float] = []

    def pause(self, seconds: float) -> bool:
        self.pauses_s.append(seconds)
        self.now_s += seconds
        return True

    def finder(self) -> instance.Finder:
        return instance.Finder(lambda: self.now_s)


def test_nothing_yet_is_asked_for_again(monkeypatch, service):
    """Nova told so, as the pool's answer took too long for it."""
    monkeypatch.setenv(instance.METADATA_URL, service.url)
    service.answers += [EMPTY, EMPTY, FULL]
    clock = Clock()
    assert clock.finder().find(pause=clock.pause)[0] is not None
    assert clock.pauses_s == [1.0, 1.0]


def test_nothing_for_long_is_given_up_once(monkeypatch, service):
    monkeypatch.setenv(instance.METADATA_URL, service.url)
    service.answers += [EMPTY] * 100
    clock = Clock()
    finder = clock.finder()
    assert finder.find(pause=clock.pause)[0] is None
    assert clock.now_s == 115.0
    assert len(service.asked) == 16
    # A program that tries again later asks once, and soon not at all.
    for _ in range(3):
        clock.now_s += 6.0
        _, places = finder.find(pause=clock.pause)
        assert "no token for this instance" in places[-1].why
    assert clock.now_s == 115.0 + 3 * 6.0
    assert len(service.asked) == 17


def test_a_token_that_was_refused_is_waited_for_again(monkeypatch, service):
    monkeypatch.setenv(instance.METADATA_URL, service.url)
    part = {**FOUND, "instance_token": "fpi_y"}
    other = json.dumps({"fpgapool": part}).encode()
    service.answers += [FULL, EMPTY, (200, {}, other)]
    clock = Clock()
    finder = clock.finder()
    found, _ = finder.find()
    clock.now_s += 1000.0
    found, _ = finder.find(pause=clock.pause, refused=[found])
    assert found is not None
    assert found.token == "fpi_y"
    assert len(clock.pauses_s) == 1


def test_who_has_no_time_is_told_at_once(monkeypatch, service):
    monkeypatch.setenv(instance.METADATA_URL, service.url)
    service.answers += [EMPTY]
    assert Clock().finder().find(pause=lambda _: False)[0] is None


@pytest.mark.parametrize(
    "answer", [(200, {}, b"{}"), (200, {}, b'{"others": {}}'), (404, {}, b"")]
)
def test_a_cloud_without_the_pool_is_not_asked_again(
    monkeypatch, tmp_path, service, answer
):
    """What a config drive says never changes."""
    put_drive(tmp_path / "drive", {})
    monkeypatch.setenv(instance.CONFIG_DRIVE, str(tmp_path / "drive"))
    monkeypatch.setenv(instance.METADATA_URL, service.url)
    service.answers.append(answer)
    clock = Clock()
    assert clock.finder().find(pause=clock.pause)[0] is None
    assert clock.pauses_s == []


def test_who_finds_nothing_is_not_remembered(monkeypatch, service):
    monkeypatch.setenv(instance.METADATA_URL, service.url)
    service.answers.append((404, {}, b""))
    finder = Clock().finder()

    class Data:
        """What a program has at hand while it looks for the pool."""

    def look() -> weakref.ref:
        data = Data()
        assert finder.find()[0] is None
        return weakref.ref(data)

    gc.disable()
    try:
        assert [look()() for _ in range(2)] == [None, None]
    finally:
        gc.enable()
    assert len(service.asked) == 1


def test_a_program_waits_as_long_as_it_may(monkeypatch, service):
    monkeypatch.setattr(instance, "_RETRY_S", 0.01)
    monkeypatch.setenv(instance.METADATA_URL, service.url)
    unreachable = {**FOUND, "api_url": "http://127.0.0.1:9"}
    found = json.dumps({"fpgapool": unreachable}).encode()
    service.answers += [EMPTY, EMPTY, (200, {}, found)]
    with pytest.raises(errors.FrontDoorUnavailable, match=r"127\.0\.0\.1:9"):
        client.acc_open("copy", 4, timeout_s=30)
    assert len(service.asked) == 3
    service.answers += [EMPTY] * 1000
    for limit in ("timeout_s", "wait_timeout_s"):
        monkeypatch.setattr(instance, "FINDER", instance.Finder())
        with pytest.raises(errors.FrontDoorUnavailable, match="this instance"):
            client.acc_open("copy", 4, **{limit: 0.001})
    monkeypatch.setattr(instance, "FINDER", instance.Finder())
    token = cancel.CancelToken()
    service.on_request = token.cancel
    with pytest.raises(errors.Cancelled):
        client.acc_open("copy", 4, cancel=token)
    monkeypatch.setattr(instance, "FINDER", instance.Finder())


# -- config drives that are out of date ---------------------------------------

ENTERED = (200, {}, b'{"accelerators": []}')
REFUSED = (
    401,
    {},
    b'{"errors": [{"code": "UNAUTHORIZED", "detail": "it is not valid"}]}',
)


@pytest.fixture
def pool():
    """Give the pool's API, apart from the metadata service."""
    made = Service()
    yield made
    made.close()


@pytest.fixture
def drive(monkeypatch, tmp_path, pool):
    """Give a config drive with the token ``fpi_old``."""
    root = tmp_path / "drive"
    put_drive(root, {"api_url": pool.url, "instance_token": "fpi_old"})
    monkeypatch.setenv(instance.CONFIG_DRIVE, str(root))
    return root


def told(pool: Service, token: str) -> tuple[int, dict, bytes]:
    part = {"api_url": pool.url, "instance_token": token}
    return (200, {}, json.dumps({"fpgapool": part}).encode())


def presented(pool: Service) -> list[str]:
    """Return the tokens by which the API was asked."""
    return [
        headers["Authorization"].removeprefix("Bearer ")
        for _, _, headers, _ in pool.asked
    ]


def connect(finder: instance.Finder) -> None:
    api = discovery.find(finder)
    assert isinstance(api, poolapi.PoolApi)
    api.enter(cancel.CancelToken()).close()


def test_an_old_token_of_a_drive_gives_way_to_the_present_one(
    monkeypatch, service, pool, drive
):
    """Nova wrote the drive before the key of tokens was replaced."""
    monkeypatch.setenv(instance.METADATA_URL, service.url)
    service.answers.append(told(pool, "fpi_new"))
    pool.answers += [REFUSED, ENTERED, ENTERED]
    finder = instance.Finder()
    connect(finder)
    connect(finder)
    assert presented(pool) == ["fpi_old", "fpi_new", "fpi_new"]
    assert len(service.asked) == 1


def test_a_good_drive_is_enough(monkeypatch, service, pool, drive):
    monkeypatch.setenv(instance.METADATA_URL, service.url)
    pool.answers.append(ENTERED)
    connect(instance.Finder())
    assert presented(pool) == ["fpi_old"]
    assert service.asked == []


def test_an_old_drive_without_a_metadata_service(monkeypatch, pool, drive):
    """The error says where the token is from, and what would help."""
    monkeypatch.setenv(instance.METADATA_URL, "http://127.0.0.1:9")
    pool.answers += [REFUSED] * 2
    finder = instance.Finder()
    for _ in range(2):
        with pytest.raises(errors.RequestRejected) as caught:
            connect(finder)
        assert caught.value.code == "UNAUTHORIZED"
        for words in (
            "it is not valid",
            f"{drive} (the API rejects its token",
            "until Nova rewrites it, for example when the instance is rebuilt",
            "http://127.0.0.1:9/openstack/latest/vendor_data2.json",
            "ConnectionRefusedError",
            "application credential",
        ):
            assert words in caught.value.message
    # The API might have been wrong: it is asked again, with the same token.
    assert presented(pool) == ["fpi_old"] * 2


def test_a_metadata_service_that_is_away_delays_refusals_once(
    monkeypatch, service, pool, drive
):
    monkeypatch.setenv(instance.METADATA_URL, service.url)
    service.answers += [(404, {}, b""), told(pool, "fpi_new")]
    pool.answers += [REFUSED] * 4
    clock = Clock()
    finder = clock.finder()
    for _ in range(3):
        with pytest.raises(errors.RequestRejected, match="HTTP 404"):
            connect(finder)
    assert len(service.asked) == 1
    clock.now_s += 11
    pool.answers.append(ENTERED)
    connect(finder)
    assert presented(pool)[-1] == "fpi_new"


def test_a_token_that_both_places_tell_is_worthless(
    monkeypatch, service, pool, drive
):
    monkeypatch.setenv(instance.METADATA_URL, service.url)
    service.answers += [told(pool, "fpi_old"), told(pool, "fpi_new")]
    pool.answers += [REFUSED, REFUSED, ENTERED]
    finder = instance.Finder()
    with pytest.raises(errors.RequestRejected) as caught:
        connect(finder)
    assert caught.value.message.count("the API rejects its token") == 2
    # Nova tells another one soon: there is no need to wait for it.
    connect(finder)
    assert presented(pool) == ["fpi_old", "fpi_old", "fpi_new"]


def test_a_revoked_token_is_waited_for_once(monkeypatch, service, pool, drive):
    """The pool tells Nova that there is nothing, now and later."""
    monkeypatch.setenv(instance.METADATA_URL, service.url)
    service.answers += [EMPTY] * 16
    pool.answers += [REFUSED] * 2
    clock = Clock()
    finder = clock.finder()
    for _ in range(2):
        api = discovery.find(finder, clock.pause)
        with pytest.raises(errors.RequestRejected, match="was revoked"):
            api.enter(cancel.CancelToken())
    assert clock.now_s == 115.0


def test_an_empty_drive_gives_way_to_the_metadata_service(
    monkeypatch, tmp_path, service, pool
):
    """Nova wrote the drive while the pool could not ask it."""
    put_drive(tmp_path / "drive", {})
    monkeypatch.setenv(instance.CONFIG_DRIVE, str(tmp_path / "drive"))
    monkeypatch.setenv(instance.METADATA_URL, service.url)
    service.answers.append(told(pool, "fpi_new"))
    pool.answers.append(ENTERED)
    connect(instance.Finder())
    assert presented(pool) == ["fpi_new"]


def test_an_empty_drive_without_a_metadata_service(monkeypatch, tmp_path):
    put_drive(tmp_path / "drive", {})
    monkeypatch.setenv(instance.CONFIG_DRIVE, str(tmp_path / "drive"))
    monkeypatch.setenv(instance.METADATA_URL, "http://127.0.0.1:9")
    with pytest.raises(errors.FrontDoorUnavailable) as caught:
        discovery.find(instance.Finder())
    for words in (
        "no token for this instance",
        "its flavor requests no accelerators, its token was revoked, or",
        "until Nova rewrites it, for example when the instance is rebuilt",
        "ConnectionRefusedError",
    ):
        assert words in caught.value.message


# -- what is told -------------------------------------------------------------


def test_tokens_are_not_shown():
    credentials = instance.Credentials("http://a", "fpi_secret")
    assert "fpi_secret" not in repr(credentials)


def test_a_certificate_that_is_not_there(monkeypatch):
    monkeypatch.setenv(instance.API_URL, "https://a")
    monkeypatch.setenv(instance.TOKEN, "fpi_x")
    monkeypatch.setenv(instance.CA_FILE, "/nowhere/ca.pem")
    with pytest.raises(errors.InvalidRequest, match=instance.CA_FILE):
        discovery.find()


# -- asking the API by it ----------------------------------------------------


def enter(service, answers):
    service.answers += [
        (status, headers, json.dumps(document).encode())
        for status, headers, document in answers
    ]
    api = poolapi.PoolApi.of_instance(
        instance.Credentials(f"{service.url}/fpgapool/", "fpi_x")
    )
    return api.enter(cancel.CancelToken())


def refusal(code: str) -> dict:
    return {"errors": [{"code": code, "detail": "because"}]}


def test_requests_carry_the_token_and_the_version(service):
    entered = enter(service, [(200, {}, {"accelerators": []})])
    ((method, path, headers, body),) = service.asked
    assert (method, path) == ("GET", "/fpgapool/v1/accelerators?limit=1")
    assert headers["Authorization"] == "Bearer fpi_x"
    assert headers["OpenStack-API-Version"] == "fpgapool 1.0"
    assert body == b""
    service.answers.append((400, {}, json.dumps(refusal("NO")).encode()))
    with pytest.raises(errors.RequestRejected, match="because"):
        entered.request("reopen", session_id="s", generation=3)
    assert json.loads(service.asked[-1][3]) == {"reopen": {"generation": 3}}
    entered.close()


def test_a_token_that_a_program_names_is_not_replaced(service):
    with pytest.raises(errors.RequestRejected, match="UNAUTHORIZED"):
        enter(service, [(401, {}, refusal("UNAUTHORIZED"))])
    assert len(service.asked) == 1


def test_who_asks_too_often_waits(service):
    started_s = time.monotonic()
    entered = enter(
        service,
        [
            (429, {"Retry-After": "1"}, refusal("RATE_LIMITED")),
            (200, {}, {"accelerators": []}),
        ],
    )
    assert time.monotonic() - started_s >= 1
    entered.close()


def test_a_redirection_gets_no_token(service):
    with pytest.raises(errors.RequestRejected, match="redirect"):
        enter(service, [(307, {"Location": "http://127.0.0.1:9/"}, {})])
    assert len(service.asked) == 1


def test_an_api_that_is_not_there():
    credentials = instance.Credentials("http://127.0.0.1:9", "fpi_x")
    api = poolapi.PoolApi.of_instance(credentials)
    with pytest.raises(errors.FrontDoorUnavailable):
        api.enter(cancel.CancelToken())


@pytest.mark.parametrize("url", ["127.0.0.1:9", "http:///", "http://["])
def test_credentials_without_a_url(url):
    with pytest.raises(errors.InvalidRequest, match="is not the URL"):
        poolapi.PoolApi.of_instance(instance.Credentials(url, "fpi_x"))


def test_an_answer_that_never_ends_is_given_up(service, monkeypatch):
    monkeypatch.setattr(instance, "_MAX_BYTES", 1000)
    with pytest.raises(errors.FrontDoorUnavailable, match="too long"):
        enter(service, [(200, {}, {"text": "x" * 2000})])


def test_certificates_of_nobody_are_refused(tmp_path):
    adapter = instance.TokenAdapter(
        instance.Credentials("https://127.0.0.1:9", "fpi_x", "no PEM"), "x"
    )
    with pytest.raises(door.ConnectionLost):
        adapter.request("/", "GET", microversion="1.0", timeout=1.0)
