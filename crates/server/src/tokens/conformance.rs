//! The suite that every [`TokenStore`] passes.

use std::{collections::BTreeSet, fs, path::PathBuf, sync::Arc};

use tempfile::TempDir;

use super::*;

/// A way to keep tokens, put to the test.
trait Implementation {
    /// The store, as one more process opens it.
    fn open(&self) -> Arc<dyn TokenStore>;
    /// Everything that is stored, as it is stored.
    fn stored(&self) -> String;
    /// Damages what is stored: what an error has to name. None where a store cannot be damaged.
    fn damage(&self) -> Option<String>;
}

struct InFile(TempDir);

impl InFile {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("tokens.json")
    }
}

impl Implementation for InFile {
    fn open(&self) -> Arc<dyn TokenStore> {
        Arc::new(TokenFile::in_folder(self.0.path()))
    }

    fn stored(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    fn damage(&self) -> Option<String> {
        let bytes = fs::read(self.path()).unwrap();
        fs::write(self.path(), &bytes[..bytes.len() / 2]).unwrap();
        Some(self.path().display().to_string())
    }
}

#[derive(Default)]
struct InMemory(Arc<MemoryTokens>);

impl Implementation for InMemory {
    fn open(&self) -> Arc<dyn TokenStore> {
        Arc::clone(&self.0) as Arc<dyn TokenStore>
    }

    fn stored(&self) -> String {
        format!("{:?}", self.0.list().unwrap())
    }

    fn damage(&self) -> Option<String> {
        None
    }
}

fn now() -> Timestamp {
    "2026-11-16T00:00:00Z".parse().unwrap()
}

fn new(scopes: &[Scope], expires_at: Option<Timestamp>) -> NewToken {
    NewToken { name: EntityId::new("ops").unwrap(), scopes: scopes.to_vec(), expires_at }
}

fn ids(store: &dyn TokenStore) -> Vec<String> {
    store.list().unwrap().into_iter().map(|token| token.id).collect()
}

fn tokens_are_found_by_their_text_alone_and_end(implementation: &impl Implementation) {
    let store = implementation.open();
    let (admin, text) = store.create(new(&[Scope::Admin], None), now()).unwrap();
    let (_, short) = store.create(new(&[Scope::Verify], Some(now().plus_seconds(60))), now()).unwrap();
    let tokens = Tokens::open(implementation.open()).unwrap();
    let operator = tokens.find(&text, now()).unwrap();
    assert!(operator.may(Scope::Ingest) && operator.may(Scope::Verify), "admin grants every permission");
    assert!(!operator.may(Scope::Review), "but that of a reviewer");
    let verify = tokens.find(&short, now()).unwrap();
    assert!(verify.may(Scope::Verify) && !verify.may(Scope::Ingest) && !verify.may(Scope::Review));
    let (reviewer, review) = store.create(new(&[Scope::Review], None), now()).unwrap();
    tokens.reload().unwrap();
    let bearer = tokens.find(&review, now()).unwrap();
    assert!(bearer.may(Scope::Review) && !bearer.may(Scope::Admin) && !bearer.may(Scope::Ingest));
    assert_eq!(find(implementation.open(), &review, now()).unwrap().unwrap().id, reviewer.id);
    assert!(find(implementation.open(), &text[1..], now()).unwrap().is_none());
    assert!(store.revoke(&reviewer.id).unwrap() && tokens.knows(&reviewer.id));
    tokens.reload().unwrap();
    assert!(!tokens.knows(&reviewer.id));
    assert!(tokens.find(&short, now().plus_seconds(60)).is_none(), "expired");
    let mut wrong = text.clone();
    wrong.pop();
    for bad in ["", "crd_", &wrong, &format!("{text}x"), &format!("crd_{}_x", admin.id), &"x".repeat(1000)] {
        assert!(tokens.find(bad, now()).is_none(), "{bad}");
    }
}

fn secrets_are_not_stored(implementation: &impl Implementation) {
    let (token, text) = implementation.open().create(new(&[Scope::Admin], None), now()).unwrap();
    let stored = implementation.stored();
    assert!(stored.contains(&token.id));
    assert!(!stored.contains(&text[PREFIX.len() + token.id.len() + 1..]), "the secret is stored: {stored}");
}

fn a_running_service_sees_every_change(implementation: &impl Implementation) {
    let (store, tokens) = (implementation.open(), Tokens::open(implementation.open()).unwrap());
    // Often, without a pause: a version that rests on a coarse clock misses some of these.
    for _ in 0..50 {
        let (token, text) = store.create(new(&[Scope::Verify], None), now()).unwrap();
        tokens.reload().unwrap();
        let bearer = tokens.find(&text, now()).expect("a created token is in force");
        assert!(store.revoke(&token.id).unwrap());
        tokens.reload().unwrap();
        assert!(tokens.find(&text, now()).is_none() && !tokens.holds(&bearer, now()), "a revoked token is not");
    }
}

fn the_version_is_the_same_for_all_until_a_change(implementation: &impl Implementation) {
    let (one, other) = (implementation.open(), implementation.open());
    let empty = one.version().unwrap();
    assert_eq!(other.version().unwrap(), empty);
    one.create(new(&[Scope::Verify], None), now()).unwrap();
    let first = other.version().unwrap();
    assert_ne!(first, empty);
    assert_eq!(one.version().unwrap(), first);
    other.create(new(&[Scope::Verify], None), now()).unwrap();
    assert_ne!(one.version().unwrap(), first);
}

fn concurrent_changes_lose_none(implementation: &impl Implementation) {
    const WRITERS: usize = 8;
    const EACH: usize = 5;
    let kept: BTreeSet<String> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| {
                let store = implementation.open();
                scope.spawn(move || {
                    (0..EACH)
                        .map(|_| {
                            let (kept, _) = store.create(new(&[Scope::Ingest], None), now()).unwrap();
                            let (gone, _) = store.create(new(&[Scope::Ingest], None), now()).unwrap();
                            assert!(store.revoke(&gone.id).unwrap());
                            kept.id
                        })
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    assert_eq!(kept.len(), WRITERS * EACH);
    let listed = ids(&*implementation.open());
    assert_eq!((listed.len(), listed.into_iter().collect()), (kept.len(), kept));
}

fn unknown_and_taken_ids_change_nothing(implementation: &impl Implementation) {
    let store = implementation.open();
    assert!(!store.revoke("000000000000").unwrap(), "an empty store");
    let (first, _) = store.create(new(&[Scope::Admin], None), now()).unwrap();
    let (second, _) = store.create(new(&[Scope::Verify], None), now()).unwrap();
    assert!(!store.revoke("000000000000").unwrap() && !store.revoke("").unwrap());
    let again = Token { scopes: vec![Scope::Admin], ..second.clone() };
    let refused = store.add(again).unwrap_err();
    assert!(matches!(&refused, Error::IdTaken(id) if *id == second.id), "{refused}");
    assert_eq!(ids(&*store), [first.id.clone(), second.id.clone()], "oldest first");
    assert_eq!(store.list().unwrap()[1].scopes, [Scope::Verify]);
    assert!(store.revoke(&first.id).unwrap() && !store.revoke(&first.id).unwrap());
    assert_eq!(ids(&*implementation.open()), [second.id]);
}

fn damage_is_an_error_that_names_the_store(implementation: &impl Implementation) {
    let store = implementation.open();
    let (token, text) = store.create(new(&[Scope::Admin], None), now()).unwrap();
    let tokens = Tokens::open(implementation.open()).unwrap();
    let Some(name) = implementation.damage() else { return };
    let damaged = implementation.stored();
    let errors = [
        store.list().map(drop),
        store.create(new(&[Scope::Admin], None), now()).map(drop),
        store.revoke(&token.id).map(drop),
        Tokens::open(implementation.open()).map(drop),
        tokens.reload(),
        tokens.reload(),
    ];
    for error in errors.map(Result::unwrap_err) {
        assert!(matches!(error, Error::Damaged { .. }) && error.to_string().contains(&name), "{error}");
    }
    assert_eq!(implementation.stored(), damaged, "what is left is not overwritten");
    assert!(tokens.find(&text, now()).is_some(), "a running service keeps what it read");
}

/// Makes one test of each check, for each implementation.
macro_rules! suite {
    ($($check:ident),+ $(,)?) => {
        mod file { $(#[test] fn $check() { super::$check(&super::InFile::new()); })+ }
        mod memory { $(#[test] fn $check() { super::$check(&super::InMemory::default()); })+ }
    };
}

suite!(
    tokens_are_found_by_their_text_alone_and_end,
    secrets_are_not_stored,
    a_running_service_sees_every_change,
    the_version_is_the_same_for_all_until_a_change,
    concurrent_changes_lose_none,
    unknown_and_taken_ids_change_nothing,
    damage_is_an_error_that_names_the_store,
);
