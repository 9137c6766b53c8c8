//! Independent sources: which sources speak with one voice (DESIGN, *Universal score*).
//!
//! Two sources are one voice when they have the same owner or share a root, which is a registry that both re-read. Voices are the
//! connected components of that relation over the sources of weight above 0 among one agent's inputs, so a source that re-reads two
//! registries joins the readers of both. A source without a stated owner is its own owner. A root covers what extends it after a
//! colon: readers of `erc8004` and of `erc8004:eip155:8453` are one voice, readers of `erc8004:eip155:1` and `erc8004:eip155:8453`
//! are two.
//!
//! Everything that counts sources counts here: n of `uts/1`, `min_sources`, certification. They count the voices that hold a source
//! of at least [`MIN_COUNTED_WEIGHT`]: a source that hardly weighs anything must not add to breadth. `uts/2` groups by all voices.
//!
//! Attestations on chains are counted by chain: [`chains`].

use std::collections::BTreeSet;

use credence_protocol::Root;

/// The least weight of a source that makes its voice count.
pub const MIN_COUNTED_WEIGHT: f64 = 0.05;

/// A source, by what decides whose voice it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speaker<'a> {
    /// The source.
    pub source: &'a str,
    /// Who runs it; itself where nobody is stated.
    pub owner: Option<&'a str>,
    /// The registries that it re-reads.
    pub roots: &'a [Root],
    /// Its weight; a source of weight 0 has no voice.
    pub weight: f64,
}

impl<'a> Speaker<'a> {
    /// A source with no stated owner and no roots.
    pub fn alone(source: &'a str, weight: f64) -> Self {
        Self { source, owner: None, roots: &[], weight }
    }
}

/// The voices of one agent's sources, numbered from 0 in the order in which they are first heard.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Voices {
    of_speaker: Vec<Option<u32>>,
    counted: Vec<bool>,
}

impl Voices {
    /// The voices of `speakers`. A source may be listed several times.
    pub fn of(speakers: &[Speaker<'_>]) -> Self {
        let mut leader: Vec<usize> = (0..speakers.len()).collect();
        let heard = || speakers.iter().enumerate().filter(|(_, speaker)| speaker.weight > 0.0);

        let mut owners: Vec<(&str, usize)> = heard().map(|(n, s)| (s.owner.unwrap_or(s.source), n)).collect();
        owners.sort_unstable();
        join_equal(&mut leader, &owners);
        // The same source listed with and without its owner is one source.
        let mut sources: Vec<(&str, usize)> = heard().map(|(n, s)| (s.source, n)).collect();
        sources.sort_unstable();
        join_equal(&mut leader, &sources);

        let mut roots: Vec<(&str, usize)> =
            heard().flat_map(|(n, s)| s.roots.iter().map(move |root| (root.as_str(), n))).collect();
        roots.sort_unstable();
        join_equal(&mut leader, &roots);
        for (n, speaker) in heard() {
            for general in speaker.roots.iter().flat_map(|root| root.and_what_covers_it().skip(1)) {
                let at = roots.partition_point(|(root, _)| *root < general);
                if let Some((_, other)) = roots.get(at).filter(|(root, _)| *root == general) {
                    join(&mut leader, n, *other);
                }
            }
        }
        Self::numbered(&mut leader, speakers)
    }

    fn numbered(leader: &mut [usize], speakers: &[Speaker<'_>]) -> Self {
        let mut voices = Self { of_speaker: Vec::with_capacity(speakers.len()), counted: Vec::new() };
        let mut number = vec![None; speakers.len()];
        for (n, speaker) in speakers.iter().enumerate() {
            if speaker.weight <= 0.0 {
                voices.of_speaker.push(None);
                continue;
            }
            let leader = find(leader, n);
            let voice = *number[leader].get_or_insert_with(|| {
                voices.counted.push(false);
                voices.counted.len() - 1
            });
            voices.counted[voice] |= speaker.weight >= MIN_COUNTED_WEIGHT;
            voices.of_speaker.push(u32::try_from(voice).ok());
        }
        voices
    }

    /// The voice of the speaker at this place of the list; none for a source of weight 0.
    pub fn voice(&self, speaker: usize) -> Option<u32> {
        self.of_speaker.get(speaker).copied().flatten()
    }

    /// How many voices there are.
    pub fn len(&self) -> usize {
        self.counted.len()
    }

    /// Whether nobody speaks.
    pub fn is_empty(&self) -> bool {
        self.counted.is_empty()
    }

    /// How many of them hold a source of at least [`MIN_COUNTED_WEIGHT`]: the n of `uts/1` and of every requirement.
    pub fn independent(&self) -> usize {
        self.counted.iter().filter(|counted| **counted).count()
    }

    /// The same without the voices of the speakers that `left_out` names.
    pub fn independent_without(&self, left_out: impl Fn(usize) -> bool) -> usize {
        let mut counted = self.counted.clone();
        for (n, voice) in self.of_speaker.iter().enumerate() {
            if let Some(voice) = voice.filter(|_| left_out(n)) {
                counted[voice as usize] = false;
            }
        }
        counted.iter().filter(|counted| **counted).count()
    }
}

/// The distinct chains that the roots of these sources name.
pub fn chains<'a>(speakers: impl IntoIterator<Item = &'a Speaker<'a>>) -> BTreeSet<&'a str> {
    speakers.into_iter().flat_map(|speaker| speaker.roots.iter().filter_map(Root::chain)).collect()
}

fn join_equal(leader: &mut [usize], sorted: &[(&str, usize)]) {
    for pair in sorted.windows(2) {
        if pair[0].0 == pair[1].0 {
            join(leader, pair[0].1, pair[1].1);
        }
    }
}

fn join(leader: &mut [usize], a: usize, b: usize) {
    let (a, b) = (find(leader, a), find(leader, b));
    // The first of a component leads it.
    leader[a.max(b)] = a.min(b);
}

fn find(leader: &mut [usize], mut n: usize) -> usize {
    while leader[n] != n {
        leader[n] = leader[leader[n]];
        n = leader[n];
    }
    n
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn roots(list: &[&str]) -> Vec<Root> {
        list.iter().map(|root| Root::new(root).unwrap()).collect()
    }

    fn speaker<'a>(source: &'a str, owner: Option<&'a str>, roots: &'a [Root]) -> Speaker<'a> {
        Speaker { source, owner, roots, weight: 1.0 }
    }

    fn of(speakers: &[Speaker<'_>]) -> Vec<Option<u32>> {
        let voices = Voices::of(speakers);
        (0..speakers.len()).map(|n| voices.voice(n)).collect()
    }

    #[test]
    fn one_owner_is_one_voice() {
        let all = [speaker("a", Some("o"), &[]), speaker("b", None, &[]), speaker("c", Some("o"), &[])];
        assert_eq!(of(&all), [Some(0), Some(1), Some(0)]);
        assert_eq!(Voices::of(&all).independent(), 2);
        // A source is its own owner where none is stated, so what it owns is its voice as well.
        assert_eq!(of(&[speaker("lab", None, &[]), speaker("lab-2", Some("lab"), &[])]), [Some(0), Some(0)]);
        assert_eq!(of(&[speaker("a", None, &[]), speaker("a", Some("o"), &[])]), [Some(0), Some(0)]);
    }

    #[test]
    fn readers_of_one_registry_are_one_voice() {
        let (all, base, main) = (roots(&["erc8004"]), roots(&["erc8004:eip155:8453"]), roots(&["erc8004:eip155:1"]));
        let on_chains = [speaker("a", None, &base), speaker("b", None, &main)];
        assert_eq!(of(&on_chains), [Some(0), Some(1)]);
        // A reader of the whole registry joins the readers of its parts.
        assert_eq!(of(&[on_chains[0], on_chains[1], speaker("c", None, &all)]), [Some(0), Some(0), Some(0)]);
        // So does one who reads two registries.
        let both = roots(&["erc8004:eip155:1", "other"]);
        let other = roots(&["other"]);
        let chained = [on_chains[0], on_chains[1], speaker("d", None, &both), speaker("e", None, &other)];
        assert_eq!(of(&chained), [Some(0), Some(1), Some(1), Some(1)]);
        assert_eq!(chains(&chained), BTreeSet::from(["eip155:1", "eip155:8453"]));
    }

    #[test]
    fn a_source_without_weight_neither_speaks_nor_joins() {
        let (one, two) = (roots(&["x"]), roots(&["y"]));
        let both = roots(&["x", "y"]);
        let mut bridge = speaker("bridge", None, &both);
        bridge.weight = 0.0;
        let all = [speaker("a", None, &one), bridge, speaker("b", None, &two)];
        assert_eq!(of(&all), [Some(0), None, Some(1)]);
        // The least weight above 0 joins; it does not count by itself.
        bridge.weight = 0.01;
        assert_eq!(of(&[all[0], bridge, all[2]]), [Some(0), Some(0), Some(0)]);
        let small = [Speaker::alone("a", 0.04), Speaker::alone("b", 0.05)];
        assert_eq!((Voices::of(&small).len(), Voices::of(&small).independent()), (2, 1));
        // One source of weight makes the whole voice count.
        let voice = [Speaker { owner: Some("o"), ..small[0] }, Speaker { owner: Some("o"), ..small[1] }];
        assert_eq!(Voices::of(&voice).independent(), 1);
        assert_eq!(Voices::of(&small).independent_without(|n| n == 1), 0);
    }

    proptest! {
        /// Against the definition: the transitive closure of the relation between pairs.
        #[test]
        fn equals_the_components_of_the_relation(
            list in prop::collection::vec((prop::option::of(0u8..4), prop::collection::vec(0usize..7, 0..3), 0u8..4), 0..9)
        ) {
            let names: Vec<String> = (0..list.len()).map(|n| format!("s{n}")).collect();
            let owners = ["o0", "o1", "s2", "s5"];
            let pool = roots(&["a", "a:b", "a:b:c", "a:d", "e", "e:f", "g"]);
            let picked: Vec<Vec<Root>> = list.iter().map(|(_, r, _)| r.iter().map(|n| pool[*n].clone()).collect()).collect();
            let speakers: Vec<_> = list.iter().enumerate().map(|(n, (owner, _, weight))| Speaker {
                source: &names[n],
                owner: owner.map(|o| owners[o as usize]),
                roots: &picked[n],
                weight: f64::from(*weight) * 0.02,
            }).collect();
            let related = |a: &Speaker<'_>, b: &Speaker<'_>| {
                a.owner.unwrap_or(a.source) == b.owner.unwrap_or(b.source)
                    || a.roots.iter().any(|x| b.roots.iter().any(|y| x.covers(y) || y.covers(x)))
            };
            let heard: Vec<usize> = (0..speakers.len()).filter(|n| speakers[*n].weight > 0.0).collect();
            let mut label: Vec<usize> = (0..speakers.len()).collect();
            for _ in &heard {
                for a in &heard {
                    for b in &heard {
                        if related(&speakers[*a], &speakers[*b]) {
                            let least = label[*a].min(label[*b]);
                            (label[*a], label[*b]) = (least, least);
                        }
                    }
                }
            }
            let voices = Voices::of(&speakers);
            for a in &heard {
                for b in &heard {
                    prop_assert_eq!(label[*a] == label[*b], voices.voice(*a) == voices.voice(*b));
                }
            }
            let counted: BTreeSet<usize> = heard.iter().filter(|n| speakers[**n].weight >= 0.05).map(|n| label[*n]).collect();
            prop_assert_eq!(voices.independent(), counted.len());
        }
    }
}
