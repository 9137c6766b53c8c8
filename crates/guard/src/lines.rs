//! Lines as a server or a client writes them: taken in chunks, whatever complete ones a read brings; one too large to keep is dropped,
//! and its edges are kept.

use std::io::{self, Read};

/// Bytes read at once.
const CHUNK: usize = 64 * 1024;
/// Bytes at the edges of a message too large to keep.
const EDGE: usize = 4096;

/// Reads lines in chunks: whatever complete lines one read brings.
pub(crate) struct Lines<R> {
    pub(crate) from: R,
    buffer: Vec<u8>,
    /// What one read brings.
    scratch: Box<[u8]>,
    /// Bytes of the buffer that are complete lines.
    complete: usize,
    most: usize,
    /// A line that is being dropped: its first and its last bytes, and how many there were.
    dropping: Option<(Vec<u8>, Vec<u8>, usize)>,
    dropped: Vec<(Vec<u8>, Vec<u8>, usize)>,
    ended: bool,
}

/// Complete lines, and lines that were too large.
pub(crate) struct Chunk<'a> {
    bytes: &'a [u8],
    dropped: &'a [(Vec<u8>, Vec<u8>, usize)],
}

pub(crate) enum Line<'a> {
    Whole(&'a [u8]),
    TooLarge { head: &'a [u8], tail: &'a [u8], bytes: usize },
}

impl<'a> Chunk<'a> {
    /// Each line, without its end.
    pub(crate) fn lines(&self) -> impl Iterator<Item = Line<'a>> + use<'a> {
        let dropped = self.dropped.iter().map(|(head, tail, bytes)| Line::TooLarge { head, tail, bytes: *bytes });
        let text = self.bytes.strip_suffix(b"\n").unwrap_or(self.bytes);
        let whole = (!self.bytes.is_empty()).then(|| text.split(|b| *b == b'\n'));
        // At the end of the stream the last line may have no end, and that is its end.
        dropped.chain(whole.into_iter().flatten().map(Line::Whole))
    }
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(from: R, most: usize) -> Self {
        Self {
            from,
            buffer: Vec::new(),
            scratch: vec![0; CHUNK].into(),
            complete: 0,
            most,
            dropping: None,
            dropped: Vec::new(),
            ended: false,
        }
    }

    /// Reads once. Gives whatever complete lines there are now, and whether the stream has ended with them.
    pub(crate) fn read(&mut self) -> io::Result<(Chunk<'_>, bool)> {
        if !self.ended {
            let length = self.buffer.len();
            let read = loop {
                match self.from.read(&mut self.scratch) {
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    read => break read?,
                }
            };
            self.buffer.extend_from_slice(&self.scratch[..read]);
            self.ended = read == 0;
            self.take(length);
        }
        if self.ended {
            self.complete = self.buffer.len();
        }
        Ok((Chunk { bytes: &self.buffer[..self.complete], dropped: &self.dropped }, self.ended))
    }

    /// Looks at what was read, from `length` on.
    fn take(&mut self, length: usize) {
        let mut new = length;
        if let Some((_, tail, bytes)) = &mut self.dropping {
            let end = self.buffer.iter().position(|b| *b == b'\n');
            let part = end.unwrap_or(self.buffer.len());
            *bytes += part;
            tail.extend_from_slice(&self.buffer[..part]);
            let spare = tail.len().saturating_sub(EDGE);
            tail.drain(..spare);
            self.buffer.drain(..end.map_or(part, |end| end + 1));
            new = 0;
            if (end.is_some() || self.ended)
                && let Some(dropped) = self.dropping.take()
            {
                self.dropped.push(dropped);
            }
        }
        if let Some(end) = self.buffer[new..].iter().rposition(|b| *b == b'\n') {
            self.complete = new + end + 1;
        }
        if self.complete == 0 && self.buffer.len() > self.most {
            let line = std::mem::take(&mut self.buffer);
            let head = line[..EDGE.min(line.len())].to_vec();
            let tail = line[line.len().saturating_sub(EDGE)..].to_vec();
            self.dropping = Some((head, tail, line.len()));
        }
    }

    /// Forgets the last chunk.
    pub(crate) fn consume(&mut self) {
        self.buffer.drain(..self.complete);
        self.complete = 0;
        self.dropped.clear();
        if self.buffer.is_empty() && self.buffer.capacity() > 16 * CHUNK {
            self.buffer.shrink_to(CHUNK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its text in pieces.
    struct Pieces(Vec<Vec<u8>>);

    impl Read for Pieces {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let Some(piece) = self.0.first_mut() else { return Ok(0) };
            let part = piece.len().min(into.len());
            into[..part].copy_from_slice(&piece[..part]);
            piece.drain(..part);
            if piece.is_empty() {
                self.0.remove(0);
            }
            Ok(part)
        }
    }

    fn read_all(pieces: &[&[u8]], most: usize) -> Vec<String> {
        let mut lines = Lines::new(Pieces(pieces.iter().map(|piece| piece.to_vec()).collect()), most);
        let mut found = Vec::new();
        loop {
            let (chunk, ended) = lines.read().unwrap();
            for line in chunk.lines() {
                found.push(match line {
                    Line::Whole(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
                    Line::TooLarge { bytes, .. } => format!("too large: {bytes}"),
                });
            }
            lines.consume();
            if ended {
                return found;
            }
        }
    }

    #[test]
    fn lines_are_lines_however_they_come() {
        assert_eq!(read_all(&[b"a\nb", b"c\r\n", b"\nd"], 1000), ["a", "bc\r", "", "d"]);
        assert_eq!(read_all(&[b""], 1000), Vec::<String>::new());
        assert_eq!(read_all(&[b"a\n"], 1000), ["a"]);
    }

    #[test]
    fn a_line_too_large_is_dropped_and_the_next_is_read() {
        let large = vec![b'x'; 3 * CHUNK];
        let found = read_all(&[b"a\n", &large, b"yy\nnext\n", &large, b"end"], CHUNK);
        assert_eq!(found, ["a", "too large: 196610", "next", "too large: 196611"]);
    }
}
