//! Messages by which a tool was once executed without a receipt, or could be: each by its name.

/// A message of a client: every place of `TOOL` in it is a call that some reader finds.
pub struct Bypass {
    pub name: &'static str,
    pub bytes: &'static [u8],
}

const fn one(name: &'static str, bytes: &'static [u8]) -> Bypass {
    Bypass { name, bytes }
}

/// Over standard input: what is between two line feeds. `TOOL` is the tag, `7001` an id that nothing else has.
pub const LINES: &[Bypass] = &[
    one(
        "carriage return inside a notification",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\r{\"jsonrpc\":\"2.0\",\"id\":7001,\"method\":\"tools/call\",\"params\":{\"name\":\"TOOL\",\"arguments\":{}}}",
    ),
    one(
        "carriage return as white space within a notification",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\",\"params\":{\"a\":\r{\"jsonrpc\":\"2.0\",\"id\":7001,\"method\":\"tools/call\",\"params\":{\"name\":\"TOOL\",\"arguments\":{}}}\r}}",
    ),
    one(
        "duplicate method, the last is a call",
        br#"{"jsonrpc":"2.0","id":7001,"method":"ping","method":"tools/call","params":{"name":"TOOL","arguments":{}}}"#,
    ),
    one(
        "duplicate method, the first is a call",
        br#"{"jsonrpc":"2.0","id":7001,"method":"tools/call","method":"ping","params":{"name":"TOOL","arguments":{}}}"#,
    ),
    one(
        "duplicate method, one of them escaped",
        br#"{"jsonrpc":"2.0","id":7001,"method":"ping","meth\u006fd":"tools/call","params":{"name":"TOOL","arguments":{}}}"#,
    ),
    one(
        "duplicate params",
        br#"{"jsonrpc":"2.0","id":7001,"method":"tools/call","params":{"name":"other"},"params":{"name":"TOOL","arguments":{}}}"#,
    ),
    one(
        "duplicate name",
        br#"{"jsonrpc":"2.0","id":7001,"method":"tools/call","params":{"name":"other","name":"TOOL","arguments":{}}}"#,
    ),
    one(
        "duplicate member in the arguments",
        br#"{"jsonrpc":"2.0","id":7001,"method":"tools/call","params":{"name":"TOOL","arguments":{"a":1,"a":2}}}"#,
    ),
    one(
        "duplicate id",
        br#"{"jsonrpc":"2.0","id":7001,"id":"7001","method":"tools/call","params":{"name":"TOOL","arguments":{}}}"#,
    ),
    one(
        "NaN",
        br#"{"jsonrpc":"2.0","id":7001,"method":"tools/call","params":{"name":"TOOL","arguments":{"a":NaN}}}"#,
    ),
    one(
        "Infinity",
        br#"{"jsonrpc":"2.0","id":7001,"method":"tools/call","params":{"name":"TOOL","arguments":{"a":-Infinity}}}"#,
    ),
    one(
        "invalid UTF-8",
        b"{\"jsonrpc\":\"2.0\",\"id\":7001,\"method\":\"tools/call\",\"params\":{\"name\":\"TOOL\",\"arguments\":{\"a\":\"\xff\xc0\x80\"}}}",
    ),
    one(
        "surrogates as UTF-8",
        b"{\"jsonrpc\":\"2.0\",\"id\":7001,\"method\":\"tools/call\",\"params\":{\"name\":\"TOOL\",\"arguments\":{\"a\":\"\xed\xa0\x80\"}}}",
    ),
    one(
        "half a surrogate pair, escaped",
        br#"{"jsonrpc":"2.0","id":7001,"method":"tools/call","params":{"name":"TOOL","arguments":{"a":"\ud800"}}}"#,
    ),
    one(
        "byte order mark",
        b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":7001,\"method\":\"tools/call\",\"params\":{\"name\":\"TOOL\",\"arguments\":{}}}",
    ),
    one(
        "raw control character in a text",
        b"{\"jsonrpc\":\"2.0\",\"id\":7001,\"method\":\"tools/call\",\"params\":{\"name\":\"TOOL\",\"arguments\":{\"a\":\"\x01\t\x1e\"}}}",
    ),
    one(
        "line separator in a text",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\",\"params\":{\"a\":\"\xe2\x80\xa8{\\\"method\\\":1}\xe2\x80\xa8\",\"b\":\"\xc2\x85\"}}\xe2\x80\xa8{\"jsonrpc\":\"2.0\",\"id\":7001,\"method\":\"tools/call\",\"params\":{\"name\":\"TOOL\"}}",
    ),
    one(
        "two values in a line",
        br#"{"jsonrpc":"2.0","method":"notifications/x"} {"jsonrpc":"2.0","id":7001,"method":"tools/call","params":{"name":"TOOL","arguments":{}}}"#,
    ),
    one(
        "garbage behind a call",
        br#"{"jsonrpc":"2.0","id":7001,"method":"tools/call","params":{"name":"TOOL","arguments":{}}} x"#,
    ),
    one(
        "garbage before a call",
        br#"data: {"jsonrpc":"2.0","id":7001,"method":"tools/call","params":{"name":"TOOL","arguments":{}}}"#,
    ),
    one("a call as a notification", br#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"TOOL","arguments":{}}}"#),
    one(
        "id null",
        br#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"TOOL","arguments":{}}}"#,
    ),
    one(
        "an id that readers round",
        br#"{"jsonrpc":"2.0","id":7001.0000000000000001,"method":"tools/call","params":{"name":"TOOL","arguments":{}}}"#,
    ),
    one(
        "an id beyond exact integers",
        br#"{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":"TOOL","arguments":{}}}"#,
    ),
    one(
        "an id that is a list",
        br#"{"jsonrpc":"2.0","id":[7001],"method":"tools/call","params":{"name":"TOOL","arguments":{}}}"#,
    ),
    one(
        "names in another case",
        br#"{"jsonrpc":"2.0","id":7001,"Method":"tools/call","method":"ping","Params":{"Name":"TOOL","Arguments":{}}}"#,
    ),
    one(
        "the method in another case",
        br#"{"jsonrpc":"2.0","id":7001,"method":"Tools/Call","params":{"name":"TOOL","arguments":{}}}"#,
    ),
    one(
        "a long s in a member's name",
        "{\"jsonrpc\":\"2.0\",\"id\":7001,\"method\":\"tools/call\",\"params\":{\"name\":\"TOOL\",\"argument\u{17f}\":{}}}".as_bytes(),
    ),
    one(
        "white space and zero around the method",
        br#"{"jsonrpc":"2.0","id":7001,"method":" tools/call\u0000","params":{"name":"TOOL","arguments":{}}}"#,
    ),
    one(
        "content length framing",
        b"Content-Length: 96\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":7001,\"method\":\"tools/call\",\"params\":{\"name\":\"TOOL\"}}                                    ",
    ),
    one(
        "an object over two lines",
        b"{\"jsonrpc\":\"2.0\",\"id\":7001,\"method\":\"tools/call\",\n\"params\":{\"name\":\"TOOL\",\"arguments\":{}}}",
    ),
    one(
        "a batch",
        br#"[{"jsonrpc":"2.0","id":7001,"method":"tools/call","params":{"name":"TOOL","arguments":{}}},{"jsonrpc":"2.0","method":"tools/call","params":{"name":"TOOL"}}]"#,
    ),
    one(
        "a batch in a batch",
        br#"[[{"jsonrpc":"2.0","id":7001,"method":"tools/call","params":{"name":"TOOL","arguments":{}}}]]"#,
    ),
    one(
        "a call in a text",
        br#""{\"jsonrpc\":\"2.0\",\"id\":7001,\"method\":\"tools/call\",\"params\":{\"name\":\"TOOL\"}}""#,
    ),
    one(
        "comments and a comma too many",
        br#"{"jsonrpc":"2.0","id":7001,/* x */"method":"tools/call","params":{"name":"TOOL","arguments":{},},}"#,
    ),
    one(
        "single quotes",
        br"{'jsonrpc':'2.0','id':7001,'method':'tools/call','params':{'name':'TOOL','arguments':{}}}",
    ),
    one(
        "another version of JSON-RPC",
        br#"{"jsonrpc":"1.0","id":7001,"method":"tools/call","params":{"name":"TOOL","arguments":{}}}"#,
    ),
    one("no version of JSON-RPC", br#"{"id":7001,"method":"tools/call","params":{"name":"TOOL","arguments":{}}}"#),
    one(
        "a call and an answer in one",
        br#"{"jsonrpc":"2.0","id":7001,"method":"tools/call","params":{"name":"TOOL","arguments":{}},"result":{}}"#,
    ),
    one(
        "a method that is a list",
        br#"{"jsonrpc":"2.0","id":7001,"method":["tools/call"],"params":{"name":"TOOL","arguments":{}}}"#,
    ),
    one("parameters as a list", br#"{"jsonrpc":"2.0","id":7001,"method":"tools/call","params":["TOOL",{}]}"#),
    one("parameters as a text", br#"{"jsonrpc":"2.0","id":7001,"method":"tools/call","params":"TOOL"}"#),
    one(
        "a tool's name with half a surrogate pair",
        br#"{"jsonrpc":"2.0","id":7001,"method":"tools/call","params":{"name":"TOOL\ud800","arguments":{}}}"#,
    ),
    one(
        "arguments as a text",
        br#"{"jsonrpc":"2.0","id":7001,"method":"tools/call","params":{"name":"TOOL","arguments":"{\"a\":1}"}}"#,
    ),
    one(
        "the same id twice",
        b"{\"jsonrpc\":\"2.0\",\"id\":7001,\"method\":\"tools/call\",\"params\":{\"name\":\"TOOL\"}}\n{\"jsonrpc\":\"2.0\",\"id\":7001,\"method\":\"tools/call\",\"params\":{\"name\":\"TOOL\"}}",
    ),
    one(
        "cancelled before it is answered",
        b"{\"jsonrpc\":\"2.0\",\"id\":7001,\"method\":\"tools/call\",\"params\":{\"name\":\"TOOL\"}}\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":7001}}",
    ),
];

/// One of them, with this tag in place of the tool's name and an id of its own.
pub fn line(bypass: &Bypass, tag: &str, index: usize) -> Vec<u8> {
    // As long as what it replaces: a length that is told stays right.
    let number = format!("{:04}", 1_000 + index % 9_000);
    let bytes = replaced(bypass.bytes, b"7001", number.as_bytes());
    if !bytes.starts_with(b"Content-Length") {
        return replaced(&bytes, b"TOOL", tag.as_bytes());
    }
    let body =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{number},\"method\":\"tools/call\",\"params\":{{\"name\":\"{tag}\"}}}}");
    format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

pub fn replaced(bytes: &[u8], what: &[u8], by: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at..].starts_with(what) {
            out.extend_from_slice(by);
            at += what.len();
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    out
}
