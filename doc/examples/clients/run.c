/* SPDX-License-Identifier: Apache-2.0
 *
 * A minimal client of the pool in C, written from the page "Protocol": it sends
 * standard input through an accelerator and writes the output to standard
 * output. It goes through the front door, which gives it a connection to the
 * slot's worker. It does not resume, and a lost slot ends it.
 *
 * cc -std=c11 -o run run.c
 * FPGAPOOL_SOCKET=PATH ./run ACCELERATOR [PARAMS-AS-JSON] <IN >OUT
 */

#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { HELLO = 1, OPENED, INPUT, ACK, OUTPUT, CLOSE, CLOSED, ERROR, PING, PONG };
enum { END = 1, OPTIONAL = 128, MAX_JSON_BYTES = 65536 };

struct frame {
	uint8_t type;
	uint16_t flags;
	uint32_t task_id;
	uint64_t offset;
	uint32_t length;
};

static _Noreturn void fail(const char *format, ...)
{
	va_list values;

	va_start(values, format);
	fputs("run: ", stderr);
	vfprintf(stderr, format, values);
	fputc('\n', stderr);
	exit(1);
}

/* ---- JSON: enough of it to find members of objects ---- */

static const char *blanks(const char *at)
{
	return at + strspn(at, " \t\r\n");
}

static const char *skip(const char *at)
{
	int depth = 0;

	do {
		at = blanks(at);
		if (*at == '"') {
			for (at++; *at != '"'; at++) {
				if (*at == '\\')
					at++;
				if (!*at)
					fail("the pool sent a broken document");
			}
			at++;
		} else if (*at == '{' || *at == '[') {
			depth++;
			at++;
		} else if (*at == '}' || *at == ']') {
			depth--;
			at++;
		} else if (*at == ',' || *at == ':') {
			at++;
		} else if (*at) {
			at += strcspn(at, ",:]} \t\r\n");
		} else {
			fail("the pool sent a broken document");
		}
	} while (depth);
	return at;
}

/* Return the value of a member, or NULL. */
static const char *member(const char *object, const char *name)
{
	size_t length = strlen(name);

	if (!object || *(object = blanks(object)) != '{')
		return NULL;
	for (object = blanks(object + 1); *object == '"';) {
		bool is_it = !strncmp(object + 1, name, length) &&
			     object[length + 1] == '"';

		object = blanks(skip(object));
		object = blanks(object + 1);
		if (is_it)
			return object;
		object = blanks(skip(object));
		if (*object == ',')
			object = blanks(object + 1);
	}
	return NULL;
}

/* Copy a text without its escapes; those that we need have none. */
static char *text(const char *object, const char *name)
{
	const char *value = member(object, name);

	if (!value || *value != '"')
		return strdup("");
	return strndup(value + 1, (size_t)(skip(value) - value) - 2);
}

static uint64_t number(const char *object, const char *name)
{
	const char *value = member(object, name);

	return value ? strtoull(value, NULL, 10) : 0;
}

static bool is(const char *object, const char *name, const char *wanted)
{
	char *found = text(object, name);
	bool same = !strcmp(found, wanted);

	free(found);
	return same;
}

/* ---- bytes ---- */

static void send_all(int fd, const void *data, size_t length)
{
	const char *at = data;

	while (length) {
		ssize_t sent = send(fd, at, length, MSG_NOSIGNAL);

		if (sent < 0 && errno != EINTR)
			fail("cannot send: %s", strerror(errno));
		if (sent > 0) {
			at += sent;
			length -= (size_t)sent;
		}
	}
}

/* Receive exactly as much; a descriptor that comes along goes to *passed. */
static void receive(int fd, void *data, size_t length, int *passed)
{
	char *at = data;

	while (length) {
		union {
			struct cmsghdr header;
			char room[CMSG_SPACE(sizeof(int))];
		} control;
		struct iovec place = {at, length};
		struct msghdr message = {.msg_iov = &place, .msg_iovlen = 1};
		struct cmsghdr *found;
		ssize_t got;

		if (passed) {
			message.msg_control = &control;
			message.msg_controllen = sizeof(control);
		}
		got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			fail("the pool closed the connection");
		found = passed ? CMSG_FIRSTHDR(&message) : NULL;
		if (found && found->cmsg_type == SCM_RIGHTS)
			memcpy(passed, CMSG_DATA(found), sizeof(int));
		at += got;
		length -= (size_t)got;
	}
}

/* ---- the front door: messages of a length and JSON ---- */

static void request(int door, const char *format, ...)
{
	char body[MAX_JSON_BYTES + 1];
	uint32_t length;
	va_list values;
	int size;

	va_start(values, format);
	size = vsnprintf(body, sizeof(body), format, values);
	va_end(values);
	if (size < 0 || size > MAX_JSON_BYTES)
		fail("the request is too long");
	length = htobe32((uint32_t)size);
	send_all(door, &length, sizeof(length));
	send_all(door, body, (size_t)size);
}

static char *message(int door, int *passed)
{
	uint32_t length;
	char *body;

	receive(door, &length, sizeof(length), passed);
	length = be32toh(length);
	if (!length || length > MAX_JSON_BYTES)
		fail("a message of %u bytes", length);
	body = calloc(1, length + 1);
	receive(door, body, length, NULL);
	return body;
}

/* Await the reply to a request; notifications that come before are dropped. */
static char *reply(int door, uint64_t id, int *passed)
{
	for (;;) {
		char *body = message(door, passed);
		const char *ok = member(body, "ok"), *error;

		if (!member(body, "event") && number(body, "id") == id) {
			if (!strncmp(ok ? ok : "", "true", 4))
				return body;
			error = member(body, "error");
			fail("%s: %s", text(error, "code"),
			     text(error, "message"));
		}
		free(body);
	}
}

static int knock(void)
{
	struct sockaddr_un place = {.sun_family = AF_UNIX};
	const char *path = getenv("FPGAPOOL_SOCKET");
	int door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (!path)
		path = "/run/fpgapool/front-door.sock";
	if (strlen(path) >= sizeof(place.sun_path))
		fail("%s: the path is too long", path);
	strcpy(place.sun_path, path);
	if (connect(door, (struct sockaddr *)&place, sizeof(place)))
		fail("%s: %s", path, strerror(errno));
	request(door, "{\"id\":1,\"op\":\"hello\",\"version\":1}");
	free(reply(door, 1, NULL));
	return door;
}

/* Await a slot; return what the pool says of the session. */
static char *wait_until_ready(int door)
{
	for (;;) {
		char *body = message(door, NULL);
		const char *session = member(body, "session");
		const char *error = member(body, "error");

		if (error)
			fail("%s: %s", text(error, "code"),
			     text(error, "message"));
		if (is(session, "state", "READY"))
			return body;
		/* Of the states without a slot, all others are final. */
		if (session && !is(session, "state", "QUEUED") &&
		    !is(session, "state", "PREPARING"))
			fail("%s: %s", text(session, "reason"),
			     text(session, "message"));
		free(body);
	}
}

/* ---- the data port: frames ---- */

static void send_frame(int fd, struct frame frame, const void *payload)
{
	unsigned char header[32] = {'F', 'P', 1, frame.type};
	uint16_t flags = htobe16(frame.flags);
	uint32_t task_id = htobe32(frame.task_id);
	uint64_t offset = htobe64(frame.offset);
	uint32_t length = htobe32(frame.length);

	memcpy(header + 4, &flags, 2);
	memcpy(header + 12, &task_id, 4);
	memcpy(header + 16, &offset, 8);
	memcpy(header + 24, &length, 4);
	send_all(fd, header, sizeof(header));
	send_all(fd, payload, frame.length);
}

/* Receive a frame; *payload ends with a zero, and is the caller's. */
static struct frame receive_frame(int fd, uint32_t most_bytes, char **payload)
{
	unsigned char header[32];
	struct frame frame;

	receive(fd, header, sizeof(header), NULL);
	if (memcmp(header, "FP\1", 3))
		fail("that is no frame");
	frame.type = header[3];
	memcpy(&frame.flags, header + 4, 2);
	memcpy(&frame.task_id, header + 12, 4);
	memcpy(&frame.offset, header + 16, 8);
	memcpy(&frame.length, header + 24, 4);
	frame.flags = be16toh(frame.flags);
	frame.task_id = be32toh(frame.task_id);
	frame.offset = be64toh(frame.offset);
	frame.length = be32toh(frame.length);
	if (frame.length > most_bytes && frame.length > MAX_JSON_BYTES)
		fail("a frame of %u bytes", frame.length);
	*payload = calloc(1, (size_t)frame.length + 1);
	receive(fd, *payload, frame.length, NULL);
	if (frame.type == ERROR)
		fail("%s: %s", text(*payload, "code"),
		     text(*payload, "message"));
	return frame;
}

static void put(const void *data, size_t length)
{
	if (fwrite(data, 1, length, stdout) != length)
		fail("standard output: %s", strerror(errno));
}

/* Send the input piece by piece, each when the one before is computed. */
static void run(int worker, const char *opened, const char *data, size_t size)
{
	uint32_t chunk_bytes = (uint32_t)number(opened, "chunk_bytes");
	uint64_t window_bytes = number(opened, "window_bytes");
	uint32_t multiple = (uint32_t)number(opened, "chunk_multiple_bytes");
	uint32_t most = chunk_bytes - chunk_bytes % (multiple ? multiple : 1);
	uint64_t sent = 0, received = 0, acknowledged = 0;
	uint32_t task_id = 0;
	bool ended = false;
	char *payload;

	while (!ended) {
		uint64_t left = size - sent;
		struct frame piece = {
			.type = INPUT,
			.flags = left <= most ? END : 0,
			.task_id = ++task_id,
			.offset = sent,
			.length = left < most ? (uint32_t)left : most,
		};
		bool computed = false;

		send_frame(worker, piece, data + sent);
		sent += piece.length;
		while (!computed) {
			struct frame frame =
				receive_frame(worker, chunk_bytes, &payload);

			if (frame.type == OUTPUT) {
				put(payload, frame.length);
				received = frame.offset + frame.length;
				ended = frame.flags & END;
			} else if (frame.type == ACK) {
				computed = frame.offset == sent &&
					   (!piece.flags || ended);
			} else if (frame.type == PING) {
				frame.type = PONG;
				frame.length = 0;
				send_frame(worker, frame, NULL);
			} else if (frame.type < OPTIONAL) {
				fail("a frame of type %u", frame.type);
			}
			free(payload);
			if (received - acknowledged >= window_bytes / 4) {
				acknowledged = received;
				send_frame(worker,
					   (struct frame){.type = ACK,
							  .offset = received},
					   NULL);
			}
		}
	}
	send_frame(worker, (struct frame){.type = ACK, .offset = received}, NULL);
	send_frame(worker, (struct frame){.type = CLOSE}, NULL);
	while (receive_frame(worker, chunk_bytes, &payload).type != CLOSED)
		free(payload);
	free(payload);
}

static char *read_all(size_t *size)
{
	char *data = NULL;
	size_t room = 0, got;

	*size = 0;
	do {
		if (*size == room)
			data = realloc(data, room = room ? 2 * room : 65536);
		got = fread(data + *size, 1, room - *size, stdin);
		*size += got;
	} while (got);
	return data;
}

int main(int argc, char **argv)
{
	const char *params = argc > 2 ? argv[2] : "{}", *session;
	unsigned char name[16];
	char request_id[33], *data, *ready, *opened, hello[MAX_JSON_BYTES + 1];
	int door, worker = -1, length;
	size_t size;

	if (argc < 2 || argc > 3)
		fail("usage: run ACCELERATOR [PARAMS-AS-JSON] <IN >OUT");
	data = read_all(&size);
	if (getrandom(name, sizeof(name), 0) != sizeof(name))
		fail("no random numbers");
	for (int i = 0; i < 16; i++)
		sprintf(request_id + 2 * i, "%02x", name[i]);

	door = knock();
	request(door,
		"{\"id\":2,\"op\":\"open\",\"request_id\":\"%s\","
		"\"accelerator\":\"%s\",\"size_bytes\":%zu}",
		request_id, argv[1], size ? size : 1);
	ready = wait_until_ready(door);
	session = member(ready, "session");
	request(door,
		"{\"id\":3,\"op\":\"connect\",\"session_id\":\"%s\","
		"\"generation\":%llu}",
		text(session, "session_id"),
		(unsigned long long)number(session, "generation"));
	free(reply(door, 3, &worker));
	if (worker < 0)
		fail("the front door gave no connection");

	length = snprintf(hello, sizeof(hello),
			  "{\"features\":[],\"session_id\":\"%s\","
			  "\"generation\":%llu,\"secret\":\"%s\","
			  "\"transport\":\"stream\",\"params\":%s}",
			  text(session, "session_id"),
			  (unsigned long long)number(session, "generation"),
			  text(session, "secret"), params);
	if (length < 0 || length > MAX_JSON_BYTES)
		fail("the parameters are too long");
	send_frame(worker,
		   (struct frame){.type = HELLO, .length = (uint32_t)length},
		   hello);
	if (receive_frame(worker, 0, &opened).type != OPENED)
		fail("the worker did not open the session");
	run(worker, opened, data, size);
	return fflush(stdout) ? 1 : 0;
}
