//! Folding: text as a model reads it, in plain lower-case ASCII, and a count of what a person would not see in it.
//!
//! Letters that look like Latin ones become them (full width, mathematical, Cyrillic and Greek look-alikes); tag characters
//! become the ASCII they stand for; zero-width characters go; white space becomes one space or line break; emphasis and
//! apostrophes go. Any other character becomes one byte that no pattern has.

/// What stands for a character outside the folding.
const OTHER: u8 = 0x80;
/// Characters of a hidden message from which it is one.
const SMUGGLED_FROM: usize = 8;
/// Zero-width characters in a row that are a message in two symbols rather than typography.
const ZERO_WIDTH_RUN: usize = 16;
/// Words cut by zero-width characters from which it is no accident.
const SPLIT_WORDS_FROM: usize = 3;

/// What each ASCII byte becomes; 0 for white space, the backslash, and what goes.
const PLAIN: [u8; 128] = {
    let mut plain = [0; 128];
    let mut byte = b'!';
    while byte < 0x7f {
        if !matches!(byte, b'*' | b'`' | b'\'' | b'\\') {
            plain[byte as usize] = byte.to_ascii_lowercase();
        }
        byte += 1;
    }
    plain
};

/// Folded text, and what was hidden in it.
#[derive(Debug, Default)]
pub(super) struct Folded {
    pub text: Vec<u8>,
    /// Where words start that were written with a capital, in order.
    pub capitals: Vec<usize>,
    smuggled: usize,
    split_words: usize,
    overrides: usize,
    right_to_left: usize,
}

/// The run of invisible characters that the reading is in.
#[derive(Default)]
struct Run {
    tags: usize,
    selectors: usize,
    zero_width: usize,
    joiners: usize,
    after: char,
}

impl Folded {
    /// Adds a text, on a line of its own.
    pub(super) fn push(&mut self, text: &str) {
        self.space(b'\n');
        self.text.reserve(text.len());
        let mut run = Run::default();
        let mut rest = text;
        while !rest.is_empty() {
            let plain = rest.bytes().position(|byte| !byte.is_ascii()).unwrap_or(rest.len());
            let (ascii, after) = rest.split_at(plain);
            if let (Some(first), Some(last)) = (ascii.chars().next(), ascii.chars().next_back()) {
                self.end(&mut run, first);
                self.ascii(ascii.as_bytes());
                run.after = last;
            }
            let mut chars = after.chars();
            if let Some(c) = chars.next() {
                self.other(c, &mut run);
            }
            rest = chars.as_str();
        }
        self.end(&mut run, ' ');
    }

    /// How much the hidden characters say on their own, 0..=1.
    pub(super) fn hidden_weight(&self) -> f64 {
        if self.smuggled >= SMUGGLED_FROM {
            0.85
        } else if self.split_words >= SPLIT_WORDS_FROM {
            0.4
        } else if self.overrides > 0 && self.right_to_left == 0 {
            0.3
        } else {
            0.0
        }
    }

    fn ascii(&mut self, bytes: &[u8]) {
        let mut escaped = false;
        for &byte in bytes {
            let plain = PLAIN[usize::from(byte & 0x7f)];
            // `\n` in a text that is itself JSON.
            if std::mem::take(&mut escaped) && matches!(byte, b'n' | b'r' | b't') {
                self.space(b'\n');
            } else if plain != 0 {
                if byte.is_ascii_uppercase() && matches!(self.text.last(), None | Some(b' ' | b'\n')) {
                    self.capitals.push(self.text.len());
                }
                self.text.push(plain);
            } else {
                match byte {
                    b'\\' => escaped = true,
                    b'\n' | b'\r' => self.space(b'\n'),
                    0..=b' ' => self.space(b' '),
                    _ => {}
                }
            }
        }
    }

    /// White space: one byte for any run of it, a line break if it has one.
    fn space(&mut self, byte: u8) {
        match self.text.last_mut() {
            Some(last @ (b' ' | b'\n')) => *last = (*last).min(byte),
            _ => self.text.push(byte),
        }
    }

    fn other(&mut self, c: char, run: &mut Run) {
        match c {
            '\u{e0001}' | '\u{e0020}'..='\u{e007f}' => {
                run.tags += 1;
                if let Some(plain) =
                    u8::try_from(u32::from(c) - 0xe0000).ok().filter(|plain| (0x20..0x7f).contains(plain))
                {
                    self.ascii(&[plain]);
                }
                return;
            }
            '\u{e0100}'..='\u{e01ef}' => return run.selectors += 1,
            '\u{200b}' | '\u{200c}' | '\u{2060}'..='\u{2064}' | '\u{feff}' => return run.zero_width += 1,
            '\u{200d}' => {
                run.joiners += 1;
                return run.zero_width += 1;
            }
            '\u{ad}' | '\u{34f}' | '\u{fe00}'..='\u{fe0f}' | '\u{200e}' | '\u{200f}' | '\u{2066}'..='\u{2069}' => {
                return;
            }
            '\u{202a}'..='\u{202c}' => return,
            '\u{202d}' | '\u{202e}' => return self.overrides += 1,
            _ => {}
        }
        self.end(run, c);
        run.after = c;
        match latin(c) {
            Some(byte) => {
                if c.is_uppercase() && matches!(self.text.last(), None | Some(b' ' | b'\n')) {
                    self.capitals.push(self.text.len());
                }
                self.ascii(&[byte]);
            }
            None if c.is_whitespace() => self.space(b' '),
            None => {
                self.right_to_left +=
                    usize::from(matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}'));
                self.text.push(OTHER);
            }
        }
    }

    /// Closes a run of invisible characters before `next`: a flag's tags, an ideograph's selector and an emoji's joiner are
    /// innocent, and so is what is written without Latin letters around it.
    fn end(&mut self, run: &mut Run, next: char) {
        let flag = run.after == '\u{1f3f4}' && run.tags <= 8;
        if !flag {
            self.smuggled += run.tags;
        }
        if run.selectors > 1 {
            self.smuggled += run.selectors;
        }
        if run.zero_width >= ZERO_WIDTH_RUN && run.joiners < run.zero_width {
            self.smuggled += run.zero_width;
        } else if run.zero_width > 0 && run.after.is_ascii_alphabetic() && next.is_ascii_alphabetic() {
            self.split_words += 1;
        }
        *run = Run { after: run.after, ..Run::default() };
    }
}

/// The ASCII that a character looks like.
fn latin(c: char) -> Option<u8> {
    let code = u32::from(c);
    let letter = |offset: u32| u8::try_from(offset % 26).ok().map(|letter| b'a' + letter);
    match c {
        '\u{ff01}'..='\u{ff5e}' => u8::try_from(code - 0xfee0).ok(),
        '\u{1d400}'..='\u{1d6a3}' => letter(code - 0x1d400),
        '\u{24b6}'..='\u{24e9}' => letter(code - 0x24b6),
        '\u{2018}' | '\u{2019}' => Some(b'\''),
        '\u{201c}' | '\u{201d}' => Some(b'"'),
        '\u{2010}'..='\u{2015}' => Some(b'-'),
        'а' | 'А' | 'α' | 'Α' | 'à'..='å' | 'À'..='Å' => Some(b'a'),
        'В' | 'Β' => Some(b'b'),
        'с' | 'С' | 'ç' | 'Ç' => Some(b'c'),
        'ԁ' => Some(b'd'),
        'е' | 'Е' | 'Ε' | 'ё' | 'è'..='ë' | 'È'..='Ë' => Some(b'e'),
        'һ' | 'Н' | 'Η' => Some(b'h'),
        'і' | 'І' | 'Ι' | 'ι' | 'ı' | 'ì'..='ï' | 'Ì'..='Ï' => Some(b'i'),
        'ј' | 'Ј' => Some(b'j'),
        'К' | 'к' | 'Κ' | 'κ' => Some(b'k'),
        'М' | 'Μ' => Some(b'm'),
        'Ν' | 'ñ' | 'Ñ' => Some(b'n'),
        'о' | 'О' | 'ο' | 'Ο' | 'ò'..='ö' | 'Ò'..='Ö' => Some(b'o'),
        'р' | 'Р' | 'ρ' | 'Ρ' => Some(b'p'),
        'ѕ' | 'Ѕ' => Some(b's'),
        'Т' | 'Τ' | 'τ' => Some(b't'),
        'υ' | 'ù'..='ü' | 'Ù'..='Ü' => Some(b'u'),
        'ν' => Some(b'v'),
        'х' | 'Х' | 'Χ' | 'χ' => Some(b'x'),
        'у' | 'У' | 'Υ' | 'ý' => Some(b'y'),
        'Ζ' => Some(b'z'),
        _ => None,
    }
}
