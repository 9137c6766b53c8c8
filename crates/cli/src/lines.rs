//! JSON Lines input.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
};

use anyhow::{Context, ensure};

/// JSON objects in a file: one on its own, or one a line. Blank lines are passed over, and of a line over the limit only as
/// much is kept as shows that it is too long.
pub struct Lines {
    max_line: usize,
    reader: Box<dyn BufRead + Send>,
    number: u64,
    whole: Option<Vec<u8>>,
    failed: bool,
}

impl Lines {
    /// Opens a file, or standard input for `-`. A file of at most `max_whole` bytes may hold one object over many lines.
    pub fn open(file: &str, max_line: usize, max_whole: usize) -> anyhow::Result<Self> {
        if file == "-" {
            return Ok(Self {
                reader: Box::new(BufReader::new(io::stdin())),
                max_line,
                number: 0,
                whole: None,
                failed: false,
            });
        }
        let opened = File::open(file).with_context(|| format!("cannot read {file}"))?;
        ensure!(!opened.metadata()?.is_dir(), "{file} is a folder, not a file");
        let small = opened.metadata()?.is_file() && opened.metadata()?.len() <= max_whole as u64;
        let mut reader = BufReader::with_capacity(1 << 20, opened);
        if small {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes)?;
            let one_object = serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok();
            return Ok(if one_object {
                Self { reader: Box::new(io::empty()), max_line, number: 0, whole: Some(bytes), failed: false }
            } else {
                Self { reader: Box::new(io::Cursor::new(bytes)), max_line, number: 0, whole: None, failed: false }
            });
        }
        Ok(Self { reader: Box::new(reader), max_line, number: 0, whole: None, failed: false })
    }
}

impl Iterator for Lines {
    /// The line's number and its bytes.
    type Item = anyhow::Result<(u64, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(whole) = self.whole.take() {
            return Some(Ok((1, whole)));
        }
        while !self.failed {
            self.number += 1;
            let mut line = Vec::new();
            let read = match self.reader.by_ref().take(self.max_line as u64).read_until(b'\n', &mut line) {
                Ok(0) => return None,
                // Keep what marks it as too large, drop the rest of the line.
                Ok(read) if read == self.max_line && line.last() != Some(&b'\n') => {
                    self.reader.skip_until(b'\n').map(drop)
                }
                other => other.map(drop),
            };
            if let Err(error) = read {
                self.failed = true;
                return Some(Err(
                    anyhow::Error::from(error).context(format!("cannot read past line {}", self.number - 1))
                ));
            }
            if !line.trim_ascii().is_empty() {
                return Some(Ok((self.number, line)));
            }
        }
        None
    }
}
