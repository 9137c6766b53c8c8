//! Messages as HTTP requests, in the forms in which a server may read something else than the guard.

use super::{bypasses::replaced, encodings, random::Random};

/// A request in the making.
struct Request<'a> {
    method: &'a str,
    path: String,
    headers: Vec<(&'a str, String)>,
    body: Vec<u8>,
    chunked: bool,
}

const KIND: (&str, &str) = ("Content-Type", "application/json");

/// One request by its name: the message, and which call stands in it where the message as such is none.
pub struct Shape {
    pub name: &'static str,
    /// How much rarer than others, because the server may keep the connection open.
    pub slow: bool,
    make: fn(&mut Random, &[u8], &str) -> Vec<u8>,
}

impl Shape {
    /// The bytes to send to a guard at `host`.
    pub fn bytes(&self, random: &mut Random, message: &[u8], host: &str) -> Vec<u8> {
        (self.make)(random, message, host)
    }
}

impl<'a> Request<'a> {
    fn post(body: &[u8]) -> Self {
        let headers = vec![
            (KIND.0, KIND.1.to_owned()),
            ("Accept", "application/json, text/event-stream".to_owned()),
            ("MCP-Protocol-Version", "2025-11-25".to_owned()),
        ];
        Self { method: "POST", path: "/mcp".to_owned(), headers, body: body.to_vec(), chunked: false }
    }

    fn with(mut self, name: &'a str, value: &str) -> Self {
        self.headers.retain(|(header, _)| *header != name);
        self.headers.push((name, value.to_owned()));
        self
    }

    fn method(mut self, method: &'a str) -> Self {
        self.method = method;
        self
    }

    fn path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    fn encoded(mut self, encoding: &str, encode: fn(&[u8]) -> Vec<u8>) -> Self {
        self.body = encode(&self.body);
        self.with("Content-Encoding", encoding)
    }

    fn charset(mut self, name: &str, body: Vec<u8>) -> Self {
        self.body = body;
        self.with(KIND.0, &format!("application/json; charset={name}"))
    }

    fn head(&self, host: &str) -> String {
        let mut head = format!("{} {} HTTP/1.1\r\nHost: {host}\r\n", self.method, self.path);
        self.headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        head
    }

    fn open(&self, host: &str) -> Vec<u8> {
        let mut bytes = self.head(host).into_bytes();
        if self.chunked {
            bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            for part in self.body.chunks(11) {
                bytes.extend_from_slice(format!("{:x};ext=\"a\"\r\n", part.len()).as_bytes());
                bytes.extend_from_slice(part);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"0\r\nX-Trailer: 1\r\n\r\n");
        } else {
            bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", self.body.len()).as_bytes());
            bytes.extend_from_slice(&self.body);
        }
        bytes
    }

    fn bytes(self, host: &str) -> Vec<u8> {
        self.with("Connection", "close").open(host)
    }
}

const fn shape(name: &'static str, make: fn(&mut Random, &[u8], &str) -> Vec<u8>) -> Shape {
    Shape { name, slow: false, make }
}

const fn slow(name: &'static str, make: fn(&mut Random, &[u8], &str) -> Vec<u8>) -> Shape {
    Shape { name, slow: true, make }
}

/// A message that executes nothing, for those that hide another.
const NOTIFICATION: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/x"}"#;

/// As every client sends it.
pub const PLAIN: Shape = shape("plain", |_, body, host| Request::post(body).bytes(host));

pub const SHAPES: &[Shape] = &[
    shape("gzip", |_, body, host| Request::post(body).encoded("gzip", encodings::gzip).bytes(host)),
    shape("x-gzip", |_, body, host| Request::post(body).encoded("x-gzip", encodings::gzip).bytes(host)),
    shape("gzip, in capitals", |_, body, host| Request::post(body).encoded("GZIP", encodings::gzip).bytes(host)),
    shape("deflate", |_, body, host| Request::post(body).encoded("deflate", encodings::zlib).bytes(host)),
    shape("brotli", |_, body, host| Request::post(body).encoded("br", encodings::brotli).bytes(host)),
    shape("gzip twice", |_, body, host| {
        Request::post(body).encoded("gzip", encodings::gzip).encoded("gzip, gzip", encodings::gzip).bytes(host)
    }),
    shape("gzip that no header tells", |_, body, host| {
        Request::post(body).encoded("identity", encodings::gzip).bytes(host)
    }),
    shape("two headers of encoding", |_, body, host| {
        let mut request = Request::post(body).encoded("gzip", encodings::gzip);
        request.headers.insert(0, ("content-encoding", "identity".to_owned()));
        request.bytes(host)
    }),
    shape("chunked", |_, body, host| Request { chunked: true, ..Request::post(body) }.bytes(host)),
    shape("chunked gzip", |_, body, host| {
        Request { chunked: true, ..Request::post(body).encoded("gzip", encodings::gzip) }.bytes(host)
    }),
    shape("both lengths", |_, body, host| {
        let length = body.len().to_string();
        Request { chunked: true, ..Request::post(body).with("Content-Length", &length) }.bytes(host)
    }),
    shape("a transfer encoding that is none", |_, body, host| {
        Request::post(body).with("Transfer-Encoding", "xchunked").bytes(host)
    }),
    shape("a length too short", |_, body, host| {
        let mut request = Request::post(NOTIFICATION).open(host);
        request.extend_from_slice(&Request::post(body).bytes(host));
        request
    }),
    shape("pipelined", |_, body, host| {
        let mut request = Request::post(body).open(host);
        request.extend_from_slice(&Request::post(NOTIFICATION).bytes(host));
        request
    }),
    shape("UTF-16", |_, body, host| Request::post(&[]).charset("utf-16le", encodings::utf16(body)).bytes(host)),
    shape("UTF-16 that no header tells", |_, body, host| Request::post(&encodings::utf16(body)).bytes(host)),
    shape("UTF-32", |_, body, host| Request::post(&[]).charset("utf-32le", encodings::utf32(body)).bytes(host)),
    shape("UTF-7 that hides a call", |_, body, host| {
        Request::post(&[]).charset("utf-7", encodings::hidden_in_utf7(body)).bytes(host)
    }),
    shape("UTF-7, quoted", |_, body, host| {
        Request::post(&[]).charset("\"UTF-7\"", encodings::hidden_in_utf7(body)).bytes(host)
    }),
    shape("two charsets", |_, body, host| {
        let kind = "application/json; charset=utf-8; charset=utf-7";
        Request::post(&encodings::hidden_in_utf7(body)).with(KIND.0, kind).bytes(host)
    }),
    shape("two types", |_, body, host| {
        let mut request = Request::post(&encodings::hidden_in_utf7(body));
        request.headers.push(("content-type", "application/json; charset=utf-7".to_owned()));
        request.bytes(host)
    }),
    shape("multipart", |_, body, host| {
        let mut part = b"--x\r\nContent-Disposition: form-data; name=\"message\"\r\n\r\n".to_vec();
        part.extend_from_slice(body);
        part.extend_from_slice(b"\r\n--x--\r\n");
        Request::post(&part).with(KIND.0, "multipart/form-data; boundary=x").bytes(host)
    }),
    shape("a form", |_, body, host| {
        let form = format!("message={}", encodings::percent(body));
        Request::post(form.as_bytes()).with(KIND.0, "application/x-www-form-urlencoded").bytes(host)
    }),
    shape("plain text", |_, body, host| Request::post(body).with(KIND.0, "text/plain").bytes(host)),
    shape("no type", |_, body, host| {
        let mut request = Request::post(body);
        request.headers.retain(|(name, _)| *name != KIND.0);
        request.bytes(host)
    }),
    shape("two values", |random, body, host| {
        let gap = random.pick(&["", " ", "\n", "\r\n", "\u{1e}"]);
        Request::post(&[NOTIFICATION, gap.as_bytes(), body].concat()).bytes(host)
    }),
    shape("a batch", |_, body, host| Request::post(&[b"[", NOTIFICATION, b",", body, b"]"].concat()).bytes(host)),
    shape("a batch in a batch", |_, body, host| Request::post(&[b"[[", body, b"]]"].concat()).bytes(host)),
    shape("over lines", |_, body, host| Request::post(&replaced(body, b"{", b"{\r\n ")).bytes(host)),
    shape("another method by header", |_, body, host| {
        Request::post(body).method("PUT").with("X-HTTP-Method-Override", "POST").bytes(host)
    }),
    slow("GET with a body", |_, body, host| Request::post(body).method("GET").bytes(host)),
    slow("GET for a body by header", |_, body, host| {
        Request::post(body).method("GET").with("X-HTTP-Method-Override", "POST").bytes(host)
    }),
    shape("DELETE with a body", |_, body, host| Request::post(body).method("DELETE").bytes(host)),
    shape("PATCH", |_, body, host| Request::post(body).method("PATCH").bytes(host)),
    shape("QUERY", |_, body, host| Request::post(body).method("QUERY").bytes(host)),
    shape("OPTIONS with a body", |_, body, host| Request::post(body).method("OPTIONS").bytes(host)),
    shape("HEAD with a body", |_, body, host| Request::post(body).method("HEAD").bytes(host)),
    shape("another path", |random, body, host| {
        let path =
            random.pick(&["/", "/mcp/", "//mcp", "/mcp%2f", "/x/../mcp", "/messages", "/mcp;x", "/MCP", "/%6dcp"]);
        Request::post(body).path(path).bytes(host)
    }),
    shape("another path, gzip", |_, body, host| {
        Request::post(body).path("/messages").encoded("gzip", encodings::gzip).bytes(host)
    }),
    shape("the message in the address", |_, body, host| {
        Request::post(NOTIFICATION).path(format!("/mcp?message={}", encodings::percent(body))).bytes(host)
    }),
    slow("GET with the message in the address", |_, body, host| {
        let path = format!("/mcp?message={}", encodings::percent(body));
        Request::post(&[]).method("GET").path(path).bytes(host)
    }),
    slow("GET of another path with the message in the address", |_, body, host| {
        let path = format!("/call?message={}", encodings::percent(body));
        Request::post(&[]).method("GET").path(path).bytes(host)
    }),
    shape("an absolute address", |_, body, host| Request::post(body).path(format!("http://{host}/mcp")).bytes(host)),
    shape("the method in a header", |_, body, host| {
        // What the body calls a notification a server that reads the header takes for a call.
        let body = replaced(body, b"tools/call", b"notifications/x");
        Request::post(&body).with("Mcp-Method", "tools/call").with("Mcp-Name", "by-header").bytes(host)
    }),
    slow("a stream that is resumed", |_, body, host| {
        Request::post(body).method("GET").with("Last-Event-ID", "1").with("Mcp-Session-Id", "s").bytes(host)
    }),
    shape("HTTP/1.0", |_, body, host| replaced(&Request::post(body).bytes(host), b"HTTP/1.1\r\n", b"HTTP/1.0\r\n")),
    shape("an upgrade", |_, body, host| {
        Request::post(body).with("Upgrade", "websocket").with("Connection", "upgrade, close").open(host)
    }),
];
