//! A report as blocks: what [`markdown`](crate::markdown) and [`html`](crate::html) render. Text is text: names, reasons and summaries
//! come from others, so that both escape all of it, and there is no block for markup.

/// Part of a line.
#[derive(Debug, Clone, PartialEq)]
pub enum Inline {
    /// Text.
    Text(String),
    /// What stands out.
    Strong(String),
    /// An id, a tag, a digest.
    Code(String),
    /// An entry of the ledger, with a link to it.
    Entry(u64),
    /// Another report, with a link to it.
    Report(String),
}

/// A line of text.
pub type Line = Vec<Inline>;

/// A column of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its head.
    pub name: &'static str,
    /// Whether it holds numbers.
    pub number: bool,
}

/// A row of a table: it cannot be made without the entries that its numbers are in.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    cells: Vec<Line>,
    entries: (u64, Option<u64>),
}

impl Row {
    /// What entry `seq` says.
    pub fn of_entry(seq: u64, cells: Vec<Line>) -> Self {
        Self { cells, entries: (seq, None) }
    }

    /// What entries from `first` to `last` say.
    pub fn of_entries(first: u64, last: u64, cells: Vec<Line>) -> Self {
        Self { cells, entries: (first, Some(last).filter(|last| *last != first)) }
    }

    /// The cells, and after them the entries.
    pub fn lines(&self) -> Vec<Line> {
        let (first, last) = self.entries;
        let mut cited = vec![Inline::Entry(first)];
        if let Some(last) = last {
            cited.extend([Inline::Text(" to ".to_owned()), Inline::Entry(last)]);
        }
        self.cells.iter().cloned().chain([cited]).collect()
    }
}

/// Part of a page.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// A heading; 1 is the title.
    Heading(u8, Line),
    /// Something to be read before the rest.
    Notice(Line),
    /// Text.
    Paragraph(Line),
    /// What somebody says: paragraphs.
    Quote(Vec<String>),
    /// Names and what they stand for.
    Facts(Vec<(&'static str, Line)>),
    /// Points.
    List(Vec<Line>),
    /// A table, whose last column is the entry.
    Table {
        /// What it shows.
        caption: &'static str,
        /// Its columns without the last.
        columns: Vec<Column>,
        /// Its rows.
        rows: Vec<Row>,
    },
    /// Text to be copied as it is.
    Preformatted(String),
}

/// Where links lead.
#[derive(Debug, Clone, Default)]
pub struct Links {
    /// The address of the service, without a slash at the end; empty on its own pages.
    pub base: String,
}

impl Links {
    /// Links to the service at `base`.
    pub fn to(base: &str) -> Self {
        Self { base: base.trim_end_matches('/').to_owned() }
    }

    /// Where an entry is shown.
    pub fn entry(&self, seq: u64) -> String {
        format!("{}/log?entry={seq}#entry-shown", self.base)
    }

    /// Where a report is shown.
    pub fn report(&self, id: &str) -> String {
        format!("{}/reports/{id}", self.base)
    }
}

/// Text.
pub(crate) fn text(text: impl Into<String>) -> Line {
    vec![Inline::Text(text.into())]
}

/// An id or a tag.
pub(crate) fn code(text: impl Into<String>) -> Line {
    vec![Inline::Code(text.into())]
}

/// A column of text, or of numbers.
pub(crate) fn column(name: &'static str, number: bool) -> Column {
    Column { name, number }
}

/// What is shown of a character in text that comes from others: one that deceives a reader is replaced.
pub(crate) fn shown(c: char) -> char {
    if credence_protocol::is_deceptive(c) { char::REPLACEMENT_CHARACTER } else { c }
}
