# SPDX-License-Identifier: Apache-2.0

"""The WSGI application, made from the table of routes."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import time
import types
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any

import falcon
from oslo_config import cfg
from oslo_log import log as logging
from oslo_middleware import cors
from oslo_middleware import healthcheck
from oslo_middleware import http_proxy_to_wsgi
from oslo_middleware import request_id

from fpgapool.api import call as calls
from fpgapool.api import metrics
from fpgapool.api import policy
from fpgapool.api import routes
from fpgapool.api.backends import news
from fpgapool.api.backends import vendordata
from fpgapool.api.backends import waiters
from fpgapool.api.http import access_log
from fpgapool.api.http import crowd
from fpgapool.api.http import errors
from fpgapool.api.http import instances
from fpgapool.api.http import microversion
from fpgapool.api.http import middleware
from fpgapool.api.http import threads
from fpgapool.api.http import tokens
from fpgapool.api.http import validation
from fpgapool.api.ui import page
from fpgapool.api.ui import recall
from fpgapool.api.ui import reentry
from fpgapool.bitstreams import signatures
from fpgapool.bitstreams import stores
from fpgapool.clients import nova
from fpgapool.common import config
from fpgapool.common import exception
from fpgapool.common.messaging import context
from fpgapool.common.messaging import rpc
from fpgapool.common.messaging import signing
from fpgapool.common.monitoring import meditation
from fpgapool.common.monitoring import ratelimit
from fpgapool.common.monitoring import tracing
from fpgapool.conf import cors as cors_conf
from fpgapool.conf import quota as quota_conf
from fpgapool.db import api as db_api
from fpgapool.rpcapi import conductor as conductor_rpcapi
from fpgapool.rpcapi import pulse as pulses
from fpgapool.vocabulary import accounting
from fpgapool.vocabulary import codes

LOG = logging.getLogger(__name__)
# For log lines that any request can cause.
_OFTEN = ratelimit.RateLimitedLog(__name__)

PROGRAM = "fpgapool-api"

#: Environment variable with the configuration files, separated by semicolons.
CONFIG_FILES = "OS_FPGAPOOL_CONFIG_FILES"

_HEALTHCHECK = "/healthcheck"
_KEYSTONE = "keystone"
_OCTETS = "application/octet-stream"

# How many calls to the conductor, and as many queries, are under way. The
# conductor answers 48 at once, and a burst of requests may be larger.
_MAX_CALLS = 16

# How much of a refused request's body is read, and for how long.
_MAX_REST_BYTES = 16 * 2**20
_MAX_REST_S = 5.0
_PIECE_BYTES = 2**16

Responder = Callable[..., None]


def load() -> middleware.Application:
    """Return the application of this process, for web servers.

    The application makes no connections and starts no threads before the first
    request, so web servers may fork after loading it.

    :raises ConfigurationError: if the configuration is invalid.
    """
    names = os.environ.get(CONFIG_FILES, "").split(";")
    files = [name for name in names if name]
    # The command line belongs to the web server.
    conf = config.init(PROGRAM, [], default_config_files=files or None)
    rpc.init(conf)
    backends = connect(conf, db_api.Database.from_conf(conf))
    app = build(conf, backends)
    meditation.register_options(conf)
    app = middleware.AtFirst(app, lambda: _start_more(conf, backends))
    return metrics.WithEndpoint(app, conf, backends.metrics)


def _start_more(conf: cfg.ConfigOpts, backends: calls.Backends) -> None:
    """Start what needs threads."""
    pulse = pulses.Pulse(backends.conductor, PROGRAM)
    sampler = recall.Sampler(backends)
    pulse.start()
    sampler.start()
    atexit.register(pulse.stop)
    atexit.register(sampler.stop)
    try:
        tracing.start(conf, PROGRAM)
        # Signals belong to the web server.
        if conf.oslo_reports.file_event_handler:
            meditation.start(
                conf,
                lambda: {"waiting_requests": backends.waiting.count},
                f"{PROGRAM}_{os.getpid()}",
            )
    except exception.ConfigurationError as error:
        LOG.error("There will be no traces or no reports: %s", error)


def connect(
    conf: cfg.ConfigOpts,
    database: db_api.Database,
    server_threads: int | None = None,
) -> calls.Backends:
    """Return the backends of handlers; RPC must have been set up.

    :param database: the conductor's database, which the API only reads.
    :param server_threads: number of the server's threads, if it is known.
    """
    options = conf.api
    server_threads = server_threads or threads.count(conf)
    counts = metrics.Metrics()
    keys = signing.pool_keys(conf)
    conductor = conductor_rpcapi.ConductorAPI(
        call_timeout_s=options.conductor_timeout_s,
        watch=counts.rpc.note,
        keys=keys,
        max_calls=_MAX_CALLS,
    )
    reader = conductor_rpcapi.ConductorAPI(
        call_timeout_s=min(
            options.read_timeout_s, options.conductor_timeout_s
        ),
        # The database answers if the conductor does not.
        tries=1,
        watch=counts.rpc.note,
        keys=keys,
        max_calls=_MAX_CALLS,
    )

    waiting = waiters.Waiters(
        lambda session_ids: backends.leader.revisions(session_ids),
        max_waiters=threads.most_that_wait(
            options.max_waiters, server_threads
        ),
        interval_s=options.wait_interval_s,
        news=news.Listener(conf, keys),
    )
    counts.waiters = waiting
    counts.desk = desk = vendordata.Vendordata(
        conf.vendordata,
        nova.Nova.from_conf(conf, timeout_s=vendordata.REQUEST_TIMEOUT_S),
        conductor,
        database,
    )
    backends = calls.Backends(
        files=_files(conf, database),
        conductor=conductor,
        reader=reader,
        default_limits=_default_limits(conf),
        database=database,
        waiting=waiting,
        metrics=counts,
        vendordata=desk,
        enforcer=policy.Enforcer(conf),
        limits=calls.Limits.of(
            options,
            max_project_requests=threads.most_of_a_project(
                options.max_project_requests, server_threads
            ),
        ),
    )
    return backends


def _default_limits(conf: cfg.ConfigOpts) -> dict[str, int] | None:
    if conf.quota.driver == quota_conf.UNIFIED:
        return None
    return {name: conf.quota[name] for name in accounting.QUOTAS}


def _files(conf: cfg.ConfigOpts, database: db_api.Database) -> calls.Files:
    options = conf.bitstreams
    store = stores.open_store(conf)
    return calls.Files(
        store=store,
        trusted_keys=signatures.TrustedKeys(options.trusted_keys_dir),
        sweeper=stores.Sweeper(store, database, options.orphan_age_s),
        signature_required=options.signature_required,
        max_size_bytes=options.max_size_bytes,
        upload_timeout_s=options.upload_timeout_s,
        # Half of the uploads, so that one project cannot block all others.
        uploads=crowd.Crowd(
            "uploads",
            codes.TOO_MANY_UPLOADS,
            max(options.max_uploads // 2, 1),
            options.max_uploads,
        ),
    )


def build(
    conf: cfg.ConfigOpts,
    backends: calls.Backends,
    table: Iterable[routes.Route] = routes.ROUTES,
) -> middleware.Application:
    table = list(table)
    public = {route.path for route in table if route.public}
    handlers = make_handlers(backends, table)
    # The order of the middleware matters; this explains it from the inside
    # out. The context contains the result of authentication. Tokens of
    # instances are checked before Keystone's middleware, which would reject
    # them. Public documents, the files of the live page, what a browser keeps
    # of a sign-in, and the health check need no authentication. All of these
    # need the addresses that the proxy reports, but a proxy must not make a
    # request look local, so noauth uses the address that the server itself
    # saw. The shield handles errors outside Falcon, which handles the version
    # and the operation. CORS comes before authentication, because browsers
    # send preflight requests without a token. All log lines and errors need
    # the request's ID, so it is set first.
    options = conf.vendordata
    was = recall.Recall(backends)
    inside = _choice(lambda path: was if path == recall.PATH else handlers)
    known = instances.InstanceAuth(
        _authenticated(conf, middleware.Context(inside)),
        handlers,
        backends.database,
        ratelimit.Limiter(options.requests_per_s, options.burst),
        conf.api.retry_after_s,
    )
    live_page = page.Page.from_conf(conf)
    others = {
        **dict.fromkeys(public, handlers),
        "/": page.Front(handlers),
        recall.PATH: known,
        reentry.PATH: reentry.Reentry(),
    }

    def inner(path: str) -> middleware.Application:
        return others.get(path) or (live_page if page.is_page(path) else known)

    app = _choice(inner)
    # Creating it registers its option. It is only used if that is set, because
    # it takes as long as all other middleware together.
    proxied = http_proxy_to_wsgi.HTTPProxyToWSGI(app, conf)
    if conf.oslo_middleware.enable_proxy_headers_parsing:
        app = proxied
    app = middleware.RememberPeer(app)
    app = middleware.Shield(app)
    cors_conf.register_opts(conf)
    if conf.cors.allowed_origin:
        app = cors.CORS(app, conf)
    app = metrics.Measured(app, backends.metrics)
    app = access_log.AccessLog(app)
    app = middleware.RequestId(app)
    health = healthcheck.Healthcheck(None, conf)
    return _choice(lambda path: health if path == _HEALTHCHECK else app)


def _authenticated(
    conf: cfg.ConfigOpts, app: middleware.Application
) -> middleware.Application:
    if conf.api.auth_strategy == _KEYSTONE:
        return tokens.Authenticated(app, conf)
    LOG.warning(
        "Requests are not authenticated, because [api] auth_strategy is noauth"
    )
    return middleware.NoAuth(app)


def _choice(
    chosen: Callable[[str], middleware.Application],
) -> middleware.Application:
    """Return an application that selects another one by path."""

    def app(
        environ: middleware.Environ, start_response: middleware.StartResponse
    ) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "").rstrip("/") or "/"
        return chosen(path)(environ, start_response)

    return app


# The innermost part: Falcon.


def make_handlers(
    backends: calls.Backends, table: Iterable[routes.Route]
) -> falcon.App:
    """Return Falcon's application."""
    app = falcon.App(middleware=[_Versions(), _Rest()])
    app.req_options.strip_url_path_trailing_slash = True

    def fail(
        req: falcon.Request, resp: falcon.Response, error: Exception, _: Any
    ) -> None:
        _fail(req, resp, error, backends.limits.retry_after_s)

    # HTTPError is registered too: otherwise Falcon's own handler answers it.
    app.add_error_handler(Exception, fail)
    app.add_error_handler(falcon.HTTPError, fail)
    resources: dict[str, Any] = {}
    for route in table:
        # Falcon accepts any object with on_get and similar methods.
        resource = resources.setdefault(route.path, types.SimpleNamespace())
        responder = _responder(route, backends)
        setattr(resource, f"on_{route.method.lower()}", responder)
        # A HEAD request for a file would start reading it from the store.
        if route.method == "GET" and not route.download:
            resource.on_head = responder
    for path, resource in resources.items():
        app.add_route(path, resource)
    return app


class _Versions:
    """Determines a request's microversion, and adds it to the response."""

    def process_request(
        self, req: falcon.Request, resp: falcon.Response
    ) -> None:
        req.context.version = microversion.OLDEST
        req.context.version = microversion.requested(
            req.get_header(microversion.HEADER)
        )

    def process_response(
        self,
        req: falcon.Request,
        resp: falcon.Response,
        resource: object,
        req_succeeded: bool,
    ) -> None:
        resp.set_header(
            microversion.HEADER,
            f"{microversion.SERVICE_TYPE} {req.context.version}",
        )
        resp.append_header("Vary", microversion.HEADER)


class _Rest:
    """Reads the rest of a refused request's body.

    Without this, the connection could break before the client has read the
    response.
    """

    def process_response(
        self,
        req: falcon.Request,
        resp: falcon.Response,
        resource: object,
        req_succeeded: bool,
    ) -> None:
        length_bytes = req.content_length or 0
        if (
            req_succeeded
            # Do not read more for callers that are not authenticated.
            or middleware.CONTEXT not in req.env
            or not 0 < length_bytes <= _MAX_REST_BYTES
        ):
            return
        deadline_s = time.monotonic() + _MAX_REST_S
        with contextlib.suppress(OSError):
            for _ in range(_MAX_REST_BYTES // _PIECE_BYTES):
                piece = req.bounded_stream.read(_PIECE_BYTES)
                if not piece or time.monotonic() > deadline_s:
                    return


def _responder(route: routes.Route, backends: calls.Backends) -> Responder:
    """Return Falcon's handler of a route."""
    since = microversion.Version.parse(route.since)
    query = validation.Checker(route.query)
    body = validation.Checker(route.body) if route.body is not None else None
    max_body_bytes = route.max_body_bytes or backends.limits.max_body_bytes
    operation = f"{route.method} {route.path}"

    def respond(
        req: falcon.Request, resp: falcon.Response, **path: str
    ) -> None:
        req.env[middleware.ROUTE] = route.path
        if req.context.version < since:
            raise falcon.HTTPNotFound(
                description=f"this operation requires version {route.since}"
            )
        caller = _caller(req, route)
        # Names never contain NUL characters, and PostgreSQL rejects them.
        names = {
            name: part.replace("\0", "\ufffd") for name, part in path.items()
        }
        call = calls.Call(
            backends=backends,
            caller=caller,
            version=req.context.version,
            # Apache leaves a slash at the end of the mount point.
            base_url=req.prefix.rstrip("/"),
            policy=route.policy,
            path=names,
            etags=tuple(map(str, req.if_none_match or ())),
        )
        failure: Exception | None = None
        try:
            if not route.public:
                call.require(route.policy)
            _check_accept(req, route)
            call.query = query.query(req.params)
            call.body = _read(req, body, max_body_bytes)
            if route.upload:
                _give_stream(call, req)
            answer = _handled(route, call)
        except Exception as error:
            failure = error
            raise
        finally:
            target = {**path, **req.params}
            call.audit.record(caller, operation, target, call.body, failure)
        _send(resp, answer)
        if call.recorded:
            resp.set_header("OpenStack-fpgapool-Source", "database")

    return respond


def _check_accept(req: falcon.Request, route: routes.Route) -> None:
    """Make sure that the client accepts the format of the response."""
    if route.response is None and not route.download:
        return
    types = [falcon.MEDIA_JSON, *([_OCTETS] if route.download else ())]
    if not any(map(req.client_accepts, types)):
        raise errors.ApiError(
            codes.NOT_ACCEPTABLE,
            f"the response is {types[-1]}, which the Accept header does not"
            " allow",
        )


def _handled(route: routes.Route, call: calls.Call) -> calls.Answer:
    """Call the handler, unless the project has too many current requests."""
    if route.public:
        return route.handler(call)
    whose = call.caller.project_id or call.caller.user_id or ""
    with call.backends.crowd.place(whose):
        return route.handler(call)


def _caller(
    req: falcon.Request, route: routes.Route
) -> context.RequestContext:
    caller: context.RequestContext | None = req.env.get(middleware.CONTEXT)
    if caller is not None:
        return caller
    if not route.public:
        raise errors.ApiError(
            codes.UNAUTHORIZED, "the caller is not authenticated"
        )
    return context.RequestContext(overwrite=False)


def _read(
    req: falcon.Request, checker: validation.Checker | None, max_bytes: int
) -> Any:
    if checker is None:
        return {}
    document = validation.read_body(req, max_bytes)
    checker.check(document, "body")
    return document


def _give_stream(call: calls.Call, req: falcon.Request) -> None:
    """Set a call's stream and its length, if the body's end is known."""
    content_type, _, _ = (req.content_type or "").partition(";")
    if content_type.strip().lower() != _OCTETS:
        raise errors.ApiError(
            codes.UNSUPPORTED_MEDIA_TYPE,
            f"the body must be {_OCTETS}",
        )
    length_bytes = req.content_length
    if length_bytes is not None:
        stream = req.bounded_stream
    elif req.env.get("wsgi.input_terminated"):
        stream = req.stream
    else:
        # Without a length, reading the body might never end.
        return
    call.stream, call.length_bytes = stream, length_bytes


def _send(resp: falcon.Response, answer: calls.Answer) -> None:
    resp.status = answer.status
    for name, value in answer.headers.items():
        resp.set_header(name, value)
    if answer.stream is not None:
        resp.set_stream(answer.stream, answer.length_bytes or 0)
    data = answer.data
    if answer.document is not None:
        data = json.dumps(answer.document).encode()
    if data is not None:
        resp.content_type = falcon.MEDIA_JSON
        resp.data = data


def _fail(
    req: falcon.Request,
    resp: falcon.Response,
    error: Exception,
    retry_after_s: int,
) -> None:
    refusal = errors.translate(error)
    if refusal.status >= 500:
        where = f"{req.method} {req.path}"
        if refusal.try_later:
            # No traceback: while a service is unavailable, many requests log
            # the same line.
            _OFTEN.error(
                "%s: %s: %s", where, refusal.code, errors.text_of(error)
            )
        else:
            _OFTEN.error("%s: %s", where, refusal.code, exc_info=error)
    headers = dict(refusal.headers)
    if refusal.try_later:
        headers["Retry-After"] = str(retry_after_s)
    document = refusal.document(req.env.get(request_id.ENV_REQUEST_ID, ""))
    _send(
        resp,
        calls.Answer(
            document=document, status=refusal.status, headers=headers
        ),
    )
