//! Simple questions: how answers are graded, and how several scores of one source family are joined.

use serde::Serialize;

/// What an answer was worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// Right.
    Correct,
    /// An answer, and wrong.
    Wrong,
    /// No answer could be found in it.
    Unparseable,
}

impl Grade {
    /// 100 or 0.
    pub fn score(self) -> f64 {
        if self == Grade::Correct { 100.0 } else { 0.0 }
    }

    fn of(right: bool) -> Self {
        if right { Grade::Correct } else { Grade::Wrong }
    }
}

/// Arithmetic: the first number in the response counts.
pub fn math(response: &str, answer: f64) -> Grade {
    match first_number(response) {
        Some(number) => Grade::of(number == answer),
        None => Grade::Unparseable,
    }
}

fn first_number(text: &str) -> Option<f64> {
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let negative = text[..start].ends_with('-');
    let rest = &text[start..];
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let whole = digits(rest);
    let fraction = rest[whole..].strip_prefix('.').map_or(0, |rest| match digits(rest) {
        0 => 0,
        n => n + 1,
    });
    let number: f64 = rest[..whole + fraction].parse().ok()?;
    Some(if negative { -number } else { number })
}

/// Multiple choice: a letter A to D standing alone counts, else the text of an option.
pub fn science(response: &str, answer: char, options: &[&str]) -> Grade {
    let words = response.split(|c: char| !c.is_alphanumeric());
    let letter =
        words.filter_map(|word| word.chars().next().filter(|_| word.len() == 1)).find(|c| ('A'..='D').contains(c));
    if let Some(letter) = letter {
        return Grade::of(letter == answer);
    }
    let lower = response.to_lowercase();
    let named = options.iter().zip('A'..).find(|(option, _)| lower.contains(&option.to_lowercase()));
    named.map_or(Grade::Unparseable, |(_, letter)| Grade::of(letter == answer))
}

/// The weighted mean over the sources that have a score.
pub fn ethos_composite(sources: &[(f64, Option<f64>)]) -> Option<f64> {
    let scored = sources.iter().filter_map(|(weight, score)| score.map(|score| (*weight, score)));
    let (sum, weights) =
        scored.fold((0.0, 0.0), |(sum, weights), (weight, score)| (sum + weight * score, weights + weight));
    (weights > 0.0).then(|| sum / weights)
}
