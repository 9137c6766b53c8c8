//! How clients put errors into words. What a tool or the server said of the error has to be there, word for word; around it may
//! stand only words that say that there was an error. A call without an answer may be told in words that say so, and no others.

/// Words before an error: none of them tells anything but that there was one.
const PREAMBLE: &[&str] = &[
    "a",
    "again",
    "an",
    "call",
    "called",
    "calling",
    "code",
    "error",
    "errors",
    "exception",
    "executing",
    "execution",
    "failed",
    "failure",
    "for",
    "from",
    "function",
    "in",
    "invocation",
    "invoking",
    "mcp",
    "mcperror",
    "occurred",
    "of",
    "on",
    "please",
    "request",
    "running",
    "runtimeerror",
    "server",
    "the",
    "there",
    "to",
    "tool",
    "toolerror",
    "toolexception",
    "try",
    "use",
    "was",
    "when",
    "while",
    "with",
];

/// Words for a call that got no answer.
const NO_ANSWER: &[&str] = &[
    "abort",
    "aborted",
    "after",
    "and",
    "answer",
    "been",
    "before",
    "by",
    "cancel",
    "canceled",
    "cancelled",
    "client",
    "closed",
    "connection",
    "deadline",
    "did",
    "disconnected",
    "ended",
    "exceeded",
    "has",
    "interrupted",
    "is",
    "lost",
    "ms",
    "no",
    "not",
    "operation",
    "out",
    "process",
    "received",
    "reset",
    "respond",
    "response",
    "s",
    "seconds",
    "terminated",
    "time",
    "timed",
    "timeout",
    "transport",
    "unavailable",
    "user",
    "within",
];

/// Words of the guard on an answer that it had to drop.
const DROPPED: &[&str] = &["bytes", "credence", "dropped", "executed", "guard", "its", "larger", "takes", "than"];

/// Places at which a preamble may end.
const MAX_CUTS: usize = 6;

/// What is left of a text without the words that clients put before and after an error; the tool's name is one of them.
pub(super) fn without_preamble<'t>(text: &'t str, tool: &str) -> Vec<&'t str> {
    let text = text.trim();
    let text = text.strip_suffix("Please fix your mistakes.").unwrap_or(text).trim();
    let cuts = text.match_indices(": ").map(|(at, cut)| (at, at + cut.len()));
    let cuts = cuts.chain(text.match_indices('(').map(|(at, _)| (at, at + 1)));
    let mut rests: Vec<&str> = cuts
        .take(MAX_CUTS)
        .filter(|(at, _)| only(&text[..*at], &[PREAMBLE], tool) && speaks_of_errors(&text[..*at]))
        .map(|(_, from)| &text[from..])
        .collect();
    let tagged = ["tool_use_error", "error"].into_iter().find_map(|tag| {
        text.strip_prefix('<')?
            .strip_prefix(tag)?
            .strip_prefix('>')?
            .strip_suffix('>')?
            .strip_suffix(tag)?
            .strip_suffix("</")
    });
    rests.extend(tagged);
    // As programs write a text into a text.
    let unquoted = |rest: &&'t str| {
        let inner = rest.strip_suffix(')').unwrap_or(rest);
        inner.strip_prefix(['\'', '"'])?.strip_suffix(['\'', '"'])
    };
    let inner: Vec<&str> = rests.iter().filter_map(unquoted).collect();
    rests.extend(inner);
    rests
}

/// Whether a text says that no answer came, and nothing else.
pub(super) fn tells_no_answer(text: &str, tool: &str) -> bool {
    only(text, &[PREAMBLE, NO_ANSWER, DROPPED], tool)
}

fn speaks_of_errors(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["error", "exception", "fail"].iter().any(|word| text.contains(word))
}

/// Whether there are no other words than these, numbers, and those of the tool's name.
fn only(text: &str, words: &[&[&str]], tool: &str) -> bool {
    let split = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect()
    };
    let of_tool = split(tool);
    split(text).iter().all(|word| {
        words.iter().any(|list| list.contains(&word.as_str()))
            || of_tool.contains(word)
            || word.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_put_around_an_error_is_taken_away() {
        for text in [
            "Error: disk full",
            "MCP error -32603: disk full",
            "Error executing tool save_file: disk full",
            "An error occurred while running the tool. Please try again. Error: disk full",
            "Error: ToolException('disk full')\n Please fix your mistakes.",
            "<tool_use_error>disk full</tool_use_error>",
        ] {
            assert!(without_preamble(text, "save_file").contains(&"disk full"), "{text}");
        }
        for text in ["Saved without any error: disk full", "No errors, 5 files saved: disk full", "Saved: disk full"] {
            assert!(!without_preamble(text, "save_file").contains(&"disk full"), "{text}");
        }
    }

    #[test]
    fn no_answer_is_told_in_such_words_only() {
        for text in
            ["MCP error -32001: Request timed out", "Connection closed", "Error calling pay: no response within 30 s"]
        {
            assert!(tells_no_answer(text, "pay"), "{text}");
        }
        for text in ["Timed out, but the transfer went through", "timed out; balance: 5000 EUR", "成功"] {
            assert!(!tells_no_answer(text, "pay"), "{text}");
        }
    }
}
