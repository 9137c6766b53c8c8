use std::process::ExitCode;

use credence_protocol::TagRegistry;

use super::Done;
use crate::output::{self, Output};

pub fn run(out: &Output) -> Done {
    let registry = TagRegistry::standard()?;
    let tags: Vec<_> = registry.iter().collect();
    out.show(&tags, || {
        let lines = tags.iter().map(|tag| {
            let remark = if tag.deferred { " (deferred: admitted, not scored)" } else { "" };
            vec![tag.name.to_string(), format!("{}{remark}", tag.meaning)]
        });
        output::table(&["tag", "meaning: 100 is always best"], &[], lines)
    })?;
    Ok(ExitCode::SUCCESS)
}
