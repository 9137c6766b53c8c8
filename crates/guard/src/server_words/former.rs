//! The words by which servers were told apart before the working directory counted: state of that time is found by them.

use url::Url;

use super::{EVALUATED, is_assignment, without_version};
use crate::server_name::{RUNNERS, VERBS, WITH_VALUE, name_of};

/// The program without runners and versions, then its arguments without flags and the word after each flag.
pub fn words(command: &[String]) -> Vec<String> {
    let Some((program, rest)) = command.split_first() else { return Vec::new() };
    let name = name_of(program);
    if RUNNERS.contains(&name.as_str()) {
        let mut args = rest.iter().enumerate();
        while let Some((n, arg)) = args.next() {
            if name != "docker" && EVALUATED.contains(&arg.as_str()) {
                return std::iter::once(name).chain(args.next().map(|(_, code)| code.clone())).collect();
            }
            let is_flag = arg.starts_with('-');
            if WITH_VALUE.contains(&arg.as_str()) {
                args.next();
            } else if !is_flag && !is_assignment(arg) && !VERBS.contains(&arg.as_str()) {
                return words(&rest[n..]);
            }
        }
    }
    if let Ok(url) = program.parse::<Url>()
        && url.host().is_some()
    {
        return vec![crate::identity::plain_url(&url)];
    }
    let mut found = vec![without_version(program)];
    let mut args = rest.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-c" => found.extend(args.next().cloned()),
            flag if flag.starts_with('-') && flag.contains('=') => {}
            flag if flag.starts_with('-') => drop(args.next()),
            word => found.push(
                word.parse::<Url>()
                    .ok()
                    .filter(|url| url.host().is_some())
                    .map_or_else(|| word.to_owned(), |url| crate::identity::plain_url(&url)),
            ),
        }
    }
    found
}
