//! The members of an object, in the order of their names.
//!
//! Objects are small and there are many of them: a sorted list takes one piece of memory for each, and less of it than a tree.

use std::{borrow::Cow, collections::BTreeMap, slice, vec};

use super::Exact;

/// The name of a member and its value.
type Member<'a> = (Cow<'a, str>, Exact<'a>);

/// The members of an object, in the order of the code points of their names, each name once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Members<'a>(Vec<Member<'a>>);

impl<'a> Members<'a> {
    /// Sorts them. The name is given back that is there twice.
    pub(super) fn sorted(mut members: Vec<Member<'a>>) -> Result<Self, Cow<'a, str>> {
        if !members.is_sorted_by(|(one, _), (next, _)| one < next) {
            members.sort_by(|(one, _), (next, _)| one.cmp(next));
            let twice = members.windows(2).position(|two| two[0].0 == two[1].0);
            if let Some(at) = twice {
                return Err(members.swap_remove(at).0);
            }
        }
        Ok(Self(members))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.as_ref().cmp(name))
    }

    /// The value of this name.
    pub fn get(&self, name: &str) -> Option<&Exact<'a>> {
        self.place(name).ok().map(|at| &self.0[at].1)
    }

    /// Adds a member, in the place of one of the same name, which is given back.
    pub fn insert(&mut self, name: Cow<'a, str>, value: Exact<'a>) -> Option<Exact<'a>> {
        match self.place(&name) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                self.0.insert(at, (name, value));
                None
            }
        }
    }

    /// Takes a member out.
    pub fn remove(&mut self, name: &str) -> Option<Exact<'a>> {
        self.place(name).ok().map(|at| self.0.remove(at).1)
    }

    /// All of them, in order.
    pub fn iter(&self) -> Iter<'_, 'a> {
        Iter(self.0.iter())
    }

    /// Their names, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Cow<'a, str>> + ExactSizeIterator {
        self.0.iter().map(|(name, _)| name)
    }

    /// Their values, in the order of their names.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Exact<'a>> + ExactSizeIterator {
        self.0.iter().map(|(_, value)| value)
    }
}

/// Of members of one name the last counts.
impl<'a> FromIterator<Member<'a>> for Members<'a> {
    fn from_iter<I: IntoIterator<Item = Member<'a>>>(members: I) -> Self {
        let members: Vec<Member<'a>> = members.into_iter().collect();
        if members.is_sorted_by(|(one, _), (next, _)| one < next) {
            return Self(members);
        }
        Self(members.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect())
    }
}

impl<'a, const N: usize> From<[Member<'a>; N]> for Members<'a> {
    fn from(members: [Member<'a>; N]) -> Self {
        members.into_iter().collect()
    }
}

impl<'a> From<BTreeMap<Cow<'a, str>, Exact<'a>>> for Members<'a> {
    fn from(members: BTreeMap<Cow<'a, str>, Exact<'a>>) -> Self {
        Self(members.into_iter().collect())
    }
}

impl<'a> IntoIterator for Members<'a> {
    type Item = Member<'a>;
    type IntoIter = vec::IntoIter<Member<'a>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'m, 'a> IntoIterator for &'m Members<'a> {
    type Item = (&'m Cow<'a, str>, &'m Exact<'a>);
    type IntoIter = Iter<'m, 'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// [`Members::iter`].
#[derive(Debug, Clone)]
pub struct Iter<'m, 'a>(slice::Iter<'m, Member<'a>>);

impl<'m, 'a> Iterator for Iter<'m, 'a> {
    type Item = (&'m Cow<'a, str>, &'m Exact<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(name, value)| (name, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl DoubleEndedIterator for Iter<'_, '_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|(name, value)| (name, value))
    }
}

impl ExactSizeIterator for Iter<'_, '_> {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn member(name: &str, n: usize) -> Member<'static> {
        (Cow::Owned(name.to_owned()), Exact::Number(n.to_string().into()))
    }

    proptest! {
        /// As a tree, whatever names there are.
        #[test]
        fn members_are_those_of_a_tree(names in prop::collection::vec("[a-c\u{e9}\u{ffff}\u{10000}\"]{0,3}", 0..24), wanted in "[a-c]{0,2}") {
            let all: Vec<Member<'static>> = names.iter().enumerate().map(|(n, name)| member(name, n)).collect();
            let mut tree: BTreeMap<Cow<'static, str>, Exact<'static>> = all.iter().cloned().collect();
            let mut members: Members<'static> = all.iter().cloned().collect();
            prop_assert!(members.iter().eq(tree.iter()));
            prop_assert!(members.keys().eq(tree.keys()) && members.values().eq(tree.values()));
            match Members::sorted(all) {
                Ok(sorted) => prop_assert!(sorted == members && sorted.len() == names.len()),
                Err(twice) => prop_assert!(names.iter().filter(|name| **name == twice).count() > 1),
            }
            prop_assert_eq!(members.get(&wanted), tree.get(wanted.as_str()));
            prop_assert_eq!(members.remove(&wanted), tree.remove(wanted.as_str()));
            let (name, value) = member(&wanted, 1_000);
            prop_assert_eq!(members.insert(name.clone(), value.clone()), tree.insert(name, value));
            prop_assert!(members.iter().eq(tree.iter()));
            prop_assert_eq!(members.len(), tree.len());
            prop_assert_eq!(Members::from(tree), members);
        }
    }
}
