"""What makes reading and writing fail: an S3 server behind a proxy that fails, a small disk, limits of a process, folders without permission."""

import contextlib
import ctypes
import hashlib
import http.client
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import boto3
from moto.server import ThreadedMotoServer

KEYS = {"AWS_ACCESS_KEY_ID": "AKIATESTKEYID", "AWS_SECRET_ACCESS_KEY": "TestSecretKey", "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}

# Faults that are a status, and S3's word for each.
STATUSES = {"unavailable": (503, "SlowDown"), "internal": (500, "InternalError"), "denied": (403, "AccessDenied"), "absent": (404, "NoSuchKey")}


class Bucket:
    """An S3 server with the empty bucket `box`, and a client of it."""

    def __init__(self):
        self.server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self.server.start()
        self.host, self.port = self.server.get_host_and_port()
        self.client = boto3.client(
            "s3", endpoint_url=f"http://{self.host}:{self.port}", region_name="us-east-1", aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        )
        self.client.create_bucket(Bucket="box")
        # What was read, by ETag.
        self.contents = {}

    def variables(self, port=None):
        """The environment that reaches it, through a proxy if a port is given."""
        return KEYS | {"AWS_ENDPOINT": f"http://{self.host}:{port or self.port}"}

    def tags(self, prefix=""):
        """The ETag of each object below a prefix, in the order of keys."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket="box", Prefix=prefix)
        return dict(sorted((entry["Key"], entry["ETag"]) for page in pages for entry in page.get("Contents", [])))

    def keys(self, prefix=""):
        return list(self.tags(prefix))

    def content(self, key, tag):
        """The bytes of the object that was listed with this ETag, a digest of them. Bytes that were read before are not read again."""
        if tag in self.contents:
            return self.contents[tag]
        answer = self.client.get_object(Bucket="box", Key=key)
        return self.contents.setdefault(answer["ETag"], answer["Body"].read())

    def uploads(self):
        """Uploads in parts that have not ended."""
        return [upload["Key"] for upload in self.client.list_multipart_uploads(Bucket="box").get("Uploads", [])]

    def download(self, prefix, folder):
        """The objects below a prefix, or the one of that name, as files; where they are."""
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / prefix.rsplit("/", 1)[-1]
        for key, tag in self.tags(prefix).items():
            if key != prefix and not key.startswith(prefix + "/"):
                continue
            path = target if key == prefix else target / key.removeprefix(prefix + "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.content(key, tag))
        return target

    def remove(self, prefix):
        for key in self.keys(prefix):
            self.client.delete_object(Bucket="box", Key=key)

    def stop(self):
        self.server.stop()


class Proxy:
    """Passes requests on to a server; `fault(number, method, path)` names what happens to each:

    None (it is passed on), one of `STATUSES`, `reset` (the connection is cut before it is passed on), `lost`
    (it is passed on, and the answer is cut off), `cut` (so is its second half), `shorter` and `longer` (the answer has a byte less or more), `retagged`
    (it has another ETag), or a pair of texts (the request is passed on with the first in its path replaced by the second). `headers` has those of each request.
    """

    def __init__(self, host, port, fault):
        self.host, self.to = host, port
        self.fault, self.number, self.lock, self.faults, self.requests, self.headers = fault, 0, threading.Lock(), {}, [], []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def cut(self):
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.close_connection = True

            def answer(self, status, headers, body, half=False):
                self.send_response_only(status)
                for key, text in headers:
                    if key.lower() not in ("transfer-encoding", "content-length", "connection"):
                        self.send_header(key, text)
                length = dict((key.lower(), text) for key, text in headers).get("content-length", len(body)) if self.command == "HEAD" else len(body)
                self.send_header("Content-Length", str(length))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body[: len(body) // 2] if half else body)
                if half:
                    self.cut()

            def pass_on(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with proxy.lock:
                    proxy.number += 1
                    number = proxy.number
                    fault = proxy.fault(number, self.command, self.path)
                    proxy.requests.append((self.command, self.path))
                    proxy.headers.append(dict(self.headers))
                    if fault:
                        proxy.faults[fault] = proxy.faults.get(fault, 0) + 1
                if fault == "reset":
                    return self.cut()
                if fault in STATUSES:
                    status, code = STATUSES[fault]
                    text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>a fault of the test</Message></Error>"
                    return self.answer(status, [("Content-Type", "application/xml")], text.encode())
                path = self.path.replace(*fault) if isinstance(fault, tuple) else self.path
                status, headers, received = proxy.forward(self.command, path, body, dict(self.headers))
                if fault == "lost":
                    return self.cut()
                if fault == "retagged":
                    headers = [(key, f'"{number}"' if key.lower() == "etag" else text) for key, text in headers]
                if fault == "shorter":
                    received = received[:-1]
                if fault == "longer":
                    received += b"\0"
                self.answer(status, headers, received, half=fault == "cut")

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = pass_on

        class Quiet(ThreadingHTTPServer):
            request_queue_size = 128

            def handle_error(self, *_):
                pass

        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def forward(self, method, path, body, headers):
        """Status, headers and body of the server's answer."""
        there = http.client.HTTPConnection(self.host, self.to, timeout=60)
        there.request(method, path, body=body, headers=headers)
        answer = there.getresponse()
        received = answer.read()
        there.close()
        return answer.status, answer.getheaders(), received

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Shelf(Proxy):
    """A server of the bucket `box` that answers by itself: `objects` has the bytes of each key. It reads and lists as S3 does, and faster than moto."""

    def __init__(self, objects, fault=lambda *_: None):
        self.objects = objects
        super().__init__(None, None, fault)

    def forward(self, method, path, body, headers):
        path, _, query = path.partition("?")
        if path == "/box":
            return 200, [("Content-Type", "application/xml")], self.listed(urllib.parse.parse_qs(query)).encode()
        key = urllib.parse.unquote(path.removeprefix("/box/"))
        if (whole := self.objects.get(key)) is None:
            return 404, [], b""
        tag = '"' + hashlib.md5(key.encode() + whole).hexdigest() + '"'
        common = [("ETag", tag), ("Last-Modified", "Tue, 24 Nov 2026 12:00:00 GMT")]
        if headers.get("if-match", tag) != tag:
            return 412, common, b""
        if headers.get("if-none-match") == tag:
            return 304, common, b""
        if not (asked := headers.get("range")):
            return 200, [*common, ("Content-Length", str(len(whole)))], whole
        begin, end = re.fullmatch(r"bytes=(\d*)-(\d*)", asked).groups()
        begin, end = (int(begin), min(int(end) + 1 if end else len(whole), len(whole))) if begin else (max(0, len(whole) - int(end)), len(whole))
        return 206, [*common, ("Content-Range", f"bytes {begin}-{end - 1}/{len(whole)}")], whole[begin:end]

    def listed(self, query):
        prefix, delimiter = query["prefix"][0], query.get("delimiter", [None])[0]
        keys, folders = [], set()
        for key in sorted(key for key in self.objects if key.startswith(prefix)):
            folder, found, _ = key.removeprefix(prefix).partition(delimiter) if delimiter else ("", "", "")
            folders.add(prefix + folder + delimiter) if found else keys.append(key)
        date = "<LastModified>2026-11-24T12:00:00.000Z</LastModified>"
        entries = [f"<Contents><Key>{key}</Key>{date}<ETag>e</ETag><Size>{len(self.objects[key])}</Size></Contents>" for key in keys]
        entries += [f"<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>" for folder in sorted(folders)]
        return f"<?xml version='1.0'?><ListBucketResult><IsTruncated>false</IsTruncated>{''.join(entries)}</ListBucketResult>"


@contextlib.contextmanager
def small_disk(folder, size):
    """A file system of so many bytes, or None where none can be made."""
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "vcz-test", str(folder)], capture_output=True) if os.geteuid() == 0 else None
    if done is None or done.returncode:
        yield None
        return
    try:
        yield folder
    finally:
        # A test may have done it.
        if os.path.ismount(folder):
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def small_files(most):
    """Before a program starts: its files cannot be longer. Writing fails, as on a full disk."""

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    return limit


def without_privileges():
    """Before a program starts: permissions of files apply to it, even if it is root's."""
    libc = ctypes.CDLL(None, use_errno=True)
    # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER: they are not in the bounding set, so the program does not get them.
    for capability in (1, 2, 3):
        libc.prctl(24, capability, 0, 0, 0)


class Cloud(Shelf):
    """A server that answers as Google Cloud Storage does to the requests that write: objects in the place of a generation or of none, copies, uploads
    in parts, and removals. (fake-gcs-server refuses uploads without `uploadType`, which is how the XML interface uploads.)"""

    def __init__(self, objects, fault=lambda *_: None):
        self.generations, self.parts = {}, {}
        super().__init__(objects, fault)

    def forward(self, method, path, body, headers):
        headers = {key.lower(): text for key, text in headers.items()}
        path, _, query = path.partition("?")
        key, query = urllib.parse.unquote(path.removeprefix("/box/")), urllib.parse.parse_qs(query, keep_blank_values=True)
        if method in ("GET", "HEAD"):
            status, found, body = super().forward(method, path + ("?" + urllib.parse.urlencode(query, doseq=True) if query else ""), body, headers)
            return status, [*found, ("x-goog-generation", str(self.generations.get(key, 1)))], body
        with self.lock:
            return self.changed(method, key, query, body, headers)

    def changed(self, method, key, query, body, headers):
        if method == "DELETE":
            return (404, [], b"") if self.objects.pop(key, None) is None else (204, [], b"")
        if "uploads" in query:
            upload = f"upload{len(self.parts)}"
            self.parts[upload] = {}
            return 200, [], self.xml("InitiateMultipartUploadResult", UploadId=upload)
        upload = query.get("uploadId", [None])[0]
        if upload and method == "PUT":
            self.parts[upload][int(query["partNumber"][0])] = body
            return 200, [("ETag", '"part"')], b""
        wanted = headers.get("x-goog-if-generation-match")
        there = self.generations.get(key, 1) if key in self.objects else 0
        if wanted is not None and int(wanted) != there:
            return 412, [], b""
        if source := headers.get("x-goog-copy-source"):
            body = self.objects.get(urllib.parse.unquote(source).removeprefix("box/"))
            if body is None:
                return 404, [], b""
        if upload:
            parts = self.parts.pop(upload)
            body = b"".join(parts[number] for number in sorted(parts))
        self.objects[key] = body
        self.generations[key] = generation = max(self.generations.values(), default=1) + 1
        answer = self.xml("CompleteMultipartUploadResult", ETag="whole") if upload else b""
        return 200, [("ETag", f'"{hashlib.md5(body).hexdigest()}"'), ("x-goog-generation", str(generation))], answer

    def xml(self, name, **fields):
        inside = "".join(f"<{field}>{text}</{field}>" for field, text in {"Bucket": "box", "Key": "key", **fields}.items())
        return f"<?xml version='1.0'?><{name}>{inside}</{name}>".encode()
