//! Slugs: the name a guard gives its server with `--name`, made from the name in the configuration.
//!
//! A slug has 1 to [`MAX_SLUG_BYTES`] of `[A-Za-z0-9._-]` and starts with a letter or a digit, so that no command line
//! takes it for a flag. A name that is a slug keeps itself; among the others two that would give the same slug get
//! different ones, by a number at the end.

use std::collections::BTreeMap;

/// The longest slug.
pub const MAX_SLUG_BYTES: usize = 64;

/// The slugs of one file: every name has its own, wherever in the file it occurs.
#[derive(Default)]
pub(crate) struct Slugs {
    of: BTreeMap<String, String>,
}

impl Slugs {
    /// Keeps the slug that a server has already; what a hand wrote there and is none is not kept.
    pub(crate) fn keep(&mut self, name: &str, slug: &str) {
        if base(slug) == slug {
            self.of.insert(name.to_owned(), slug.to_owned());
        }
    }

    /// Gives each of `names` a slug: first those that are one themselves, so that they get it whatever the order.
    pub(crate) fn assign<'n>(&mut self, names: impl Iterator<Item = &'n str> + Clone) {
        let (exact, others) = (names.clone().filter(|name| base(name) == *name), names);
        for name in exact.chain(others) {
            if !self.of.contains_key(name) {
                let slug = self.free(&base(name));
                self.of.insert(name.to_owned(), slug);
            }
        }
    }

    /// The slug of a name that was kept or assigned.
    pub(crate) fn of(&self, name: &str) -> String {
        self.of.get(name).cloned().unwrap_or_else(|| base(name))
    }

    fn free(&self, base: &str) -> String {
        let taken = |slug: &str| self.of.values().any(|known| known == slug);
        let numbered = (2..).map(|number| {
            let end = format!("-{number}");
            format!("{}{end}", &base[..base.len().min(MAX_SLUG_BYTES - end.len())])
        });
        std::iter::once(base.to_owned()).chain(numbered).find(|slug| !taken(slug)).unwrap_or_default()
    }
}

/// The slug of a name when it is alone.
fn base(name: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' };
    let text: String =
        name.chars().map(legal).skip_while(|c| !c.is_ascii_alphanumeric()).take(MAX_SLUG_BYTES).collect();
    if text.is_empty() { "server".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slugs(names: &[&str]) -> Vec<String> {
        let mut slugs = Slugs::default();
        slugs.assign(names.iter().copied());
        names.iter().map(|name| slugs.of(name)).collect()
    }

    #[test]
    fn a_legal_name_stays_and_others_become_legal() {
        assert_eq!(
            slugs(&["fs", "My Server", "--help", "привет", ""]),
            ["fs", "My-Server", "help", "server", "server-2"]
        );
    }

    #[test]
    fn names_with_the_same_slug_get_different_ones_and_the_exact_name_keeps_its_own() {
        assert_eq!(slugs(&["a b", "a/b", "a-b", "a b"]), ["a-b-2", "a-b-3", "a-b", "a-b-2"]);
        assert_eq!(slugs(&["a b", "a-b-2", "a-b"]), ["a-b-3", "a-b-2", "a-b"]);
    }

    #[test]
    fn long_names_stay_within_the_limit_and_apart() {
        let (first, second) = ("x".repeat(80), "x".repeat(81));
        let slugs = slugs(&[&first, &second]);
        assert_eq!(slugs[0].len(), MAX_SLUG_BYTES);
        assert_eq!(slugs[1].len(), MAX_SLUG_BYTES);
        assert!(slugs[1].ends_with("x-2"));
    }

    #[test]
    fn a_slug_in_use_is_not_given_again() {
        let mut slugs = Slugs::default();
        slugs.keep("old", "fs");
        slugs.keep("odd", "not a slug");
        slugs.assign(["fs", "old", "odd"].into_iter());
        assert_eq!([slugs.of("fs"), slugs.of("old"), slugs.of("odd")], ["fs-2", "fs", "odd"]);
    }
}
