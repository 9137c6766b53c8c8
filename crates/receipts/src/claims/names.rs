//! Tool names, as clients spell them.

/// How a claimed name compares with a tool's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NameMatch {
    /// Another tool.
    Other,
    /// A longer name, which is not that of the server and the tool.
    Longer,
    /// The tool, as clients may call it.
    Same,
}

/// Clients put the server's name in front, and some know letters, digits and underscores only.
pub(super) fn compare_names(claimed: &str, tool: &str, server: &str) -> NameMatch {
    if claimed == tool {
        return NameMatch::Same;
    }
    let plain = |name: &str| {
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect::<String>()
    };
    let (claimed, tool, server) = (plain(claimed), plain(tool), plain(server));
    match claimed.strip_suffix(&tool) {
        Some("") => NameMatch::Same,
        Some(prefix) if !tool.is_empty() && prefix.ends_with('_') => {
            let of_server = prefix.starts_with("mcp_") || prefix.trim_matches('_') == server;
            if of_server { NameMatch::Same } else { NameMatch::Longer }
        }
        _ => NameMatch::Other,
    }
}
