//! Server-sent events on their way: cut where they end, however their lines end.

/// Bytes of an event's name or id.
const MAX_IDENTIFIER: usize = 512;

/// Events as they come, and how far they were looked at.
#[derive(Default)]
pub(crate) struct Events {
    pub(crate) buffer: Vec<u8>,
    scanned: usize,
    /// The end of the last whole event.
    end: usize,
    /// Where the line begins that is being read.
    line: usize,
    begun: bool,
}

impl Events {
    /// Takes in what came.
    pub(crate) fn push(&mut self, part: &[u8]) {
        self.buffer.extend_from_slice(part);
        if !self.begun && self.buffer.len() >= 3 {
            self.begun = true;
            if without_mark(&self.buffer).len() < self.buffer.len() {
                self.buffer.drain(..3);
            }
        }
    }

    /// Whatever whole events there are; each byte is looked at once. A line ends with CR, LF or both.
    pub(crate) fn whole(&mut self) -> Option<Vec<u8>> {
        while let Some(byte) = self.buffer.get(self.scanned).copied() {
            let next = self.buffer.get(self.scanned + 1).copied();
            let end = match (byte, next) {
                // Whether a line feed follows is not known yet.
                (b'\r', None) => break,
                (b'\r', Some(b'\n')) => self.scanned + 2,
                (b'\r' | b'\n', _) => self.scanned + 1,
                _ => {
                    self.scanned += 1;
                    continue;
                }
            };
            if self.scanned == self.line {
                self.end = end;
            }
            (self.scanned, self.line) = (end, end);
        }
        if self.end == 0 {
            return None;
        }
        let events = self.buffer.drain(..self.end).collect();
        self.scanned -= self.end;
        self.line -= self.end;
        self.end = 0;
        Some(events)
    }
}

/// Without the mark that some put before UTF-8.
pub(crate) fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// The lines of a text with their ends: CR, LF or both.
pub(crate) fn lines_of(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let length = rest.find(['\r', '\n']).unwrap_or(rest.len());
        let (line, after) = rest.split_at(length);
        let end = if after.starts_with("\r\n") { 2 } else { after.len().min(1) };
        let (end, after) = after.split_at(end);
        rest = after;
        Some((line, end))
    })
}

/// The events of a text, each with its end.
pub(crate) fn split_events(text: &str) -> Vec<&str> {
    let mut events = Vec::new();
    let (mut start, mut at) = (0, 0);
    for (line, end) in lines_of(text) {
        at += line.len() + end.len();
        if line.is_empty() {
            events.push(&text[start..at]);
            start = at;
        }
    }
    if start < text.len() {
        events.push(&text[start..]);
    }
    events
}

/// One event, taken apart.
#[derive(Default)]
pub(crate) struct Event<'a> {
    /// Its data, lines joined; `None` where it has none.
    pub(crate) data: Option<String>,
    /// The other fields that every reader knows, as they came.
    fields: Vec<(&'a str, &'a str)>,
    /// It holds a comment, as servers send to keep a connection open.
    comment: bool,
}

impl<'a> Event<'a> {
    /// Takes the text of one event apart.
    pub(crate) fn parse(text: &'a str) -> Self {
        let mut event = Self::default();
        for (line, _) in lines_of(text) {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "data" => match &mut event.data {
                    Some(data) => {
                        data.push('\n');
                        data.push_str(value);
                    }
                    None => event.data = Some(value.to_owned()),
                },
                "event" | "id" | "retry" if is_identifier(value) => event.fields.push((field, value)),
                "" if !line.is_empty() => event.comment = true,
                _ => {}
            }
        }
        event
    }

    /// Writes it with this data, which holds no line break.
    pub(crate) fn write(&self, data: Option<&str>, out: &mut String) {
        if data.is_none() && self.fields.is_empty() && !self.comment {
            return;
        }
        if self.comment {
            out.push_str(":\n");
        }
        for (field, value) in &self.fields {
            out.push_str(&format!("{field}: {value}\n"));
        }
        if let Some(data) = data {
            out.push_str("data: ");
            out.push_str(data);
            out.push('\n');
        }
        out.push('\n');
    }
}

/// Names of events and their ids are no messages, and hold nothing at which some reader splits a line.
fn is_identifier(value: &str) -> bool {
    value.len() <= MAX_IDENTIFIER && value.bytes().all(|b| b.is_ascii_graphic() && !b"{}[]\"'<>\\".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_cut_where_they_end() {
        let cut = |parts: &[&str]| {
            let mut events = Events::default();
            let mut whole = Vec::new();
            for part in parts {
                events.push(part.as_bytes());
                whole.extend(events.whole().map(|bytes| String::from_utf8(bytes).unwrap()));
            }
            (whole, String::from_utf8(events.buffer).unwrap())
        };
        let text = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        assert_eq!(cut(&["data: 1\n\ndata: 2"]), (text(&["data: 1\n\n"]), "data: 2".to_owned()));
        assert_eq!(cut(&["data: 1\r", "\n\r\n", "x"]), (text(&["data: 1\r\n\r\n"]), "x".to_owned()));
        assert_eq!(cut(&["data: 1\r\rdata: 2\r", "\r", "y"]).0, text(&["data: 1\r\r", "data: 2\r\r"]));
        assert_eq!(cut(&["\u{feff}data: 1\n\n"]).0, text(&["data: 1\n\n"]));
        assert_eq!(cut(&["data: 1\n"]).0, Vec::<String>::new());
        assert_eq!(split_events("id: 1\ndata: a\n\n: ping\r\rrest"), ["id: 1\ndata: a\n\n", ": ping\r\r", "rest"]);
        let written = |text: &str, data: Option<&str>| {
            let mut out = String::new();
            Event::parse(text).write(data, &mut out);
            out
        };
        let event = "event: message\rid: 1\r: words\ndata:a\ndata\ndata: b\nother: x\n\n";
        assert_eq!(Event::parse(event).data.as_deref(), Some("a\n\nb"));
        assert_eq!(written(event, Some("c")), ":\nevent: message\nid: 1\ndata: c\n\n");
        assert_eq!(written("id: 1\u{2028}data: x\n\n", None), "");
        assert_eq!(written("event: {\"id\":1}\nid: two words\ndata: x\n\n", Some("x")), "data: x\n\n");
        assert_eq!(written("id: 0b1-2_3/c==\nretry: 100\n\n", None), "id: 0b1-2_3/c==\nretry: 100\n\n");
        assert_eq!(written(": ping\n\n", None), ":\n\n");
        assert_eq!(written("id: 7\ndata:\n\n", Some("")), "id: 7\ndata: \n\n");
        let lines: Vec<_> = lines_of("data: a\r: x\n\n").collect();
        assert_eq!(lines, [("data: a", "\r"), (": x", "\n"), ("", "\n")]);
    }
}
