//! Parameters made ready for computing: tags in the order of their dimension, so that a dimension's tags are neighbours.

use std::{ops::Range, sync::OnceLock};

use super::parameters::{DIMENSIONS, Dimension, DimensionParameters, Parameters, Scale};
use crate::Error;

/// The formula with its parameters.
#[derive(Debug, Clone)]
pub struct Model {
    parameters: Parameters,
    digest: String,
    pub(super) tags: Vec<TagModel>,
    /// Tags by name.
    by_name: Vec<(String, TagSlot)>,
    pub(super) dimensions: [DimensionParameters; DIMENSIONS],
    pub(super) slots: [Range<usize>; DIMENSIONS],
}

#[derive(Debug, Clone)]
pub(super) struct TagModel {
    pub name: String,
    pub dimension: Dimension,
    pub scale: Scale,
    /// −1 / half-life: what an age is multiplied by.
    pub decay: f64,
    /// The age from which on it is left out.
    pub expires_after_days: f64,
}

/// A tag of the model: its place there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TagSlot(pub(super) u8);

impl Model {
    /// With the parameters that ship.
    pub fn standard() -> Result<&'static Self, Error> {
        static STANDARD: OnceLock<Result<Model, Error>> = OnceLock::new();
        STANDARD
            .get_or_init(|| {
                let (parameters, digest) = Parameters::standard()?;
                Ok(Self::assemble(parameters.clone(), digest.clone()))
            })
            .as_ref()
            .map_err(Clone::clone)
    }

    /// With the parameters of this digest, if this version has them.
    pub fn with_digest(digest: &str) -> Result<&'static Self, Error> {
        let standard = Self::standard()?;
        if standard.digest == digest {
            return Ok(standard);
        }
        Err(Error::UnknownParameters { given: digest.chars().take(80).collect(), known: standard.digest.clone() })
    }

    /// With other parameters.
    pub fn new(parameters: Parameters) -> Result<Self, Error> {
        parameters.check()?;
        let digest = parameters.digest()?;
        Ok(Self::assemble(parameters, digest))
    }

    fn assemble(parameters: Parameters, digest: String) -> Self {
        let mut tags: Vec<TagModel> = parameters
            .tags
            .iter()
            .map(|(name, tag)| TagModel {
                name: name.clone(),
                dimension: tag.dimension,
                scale: tag.scale,
                decay: -1.0 / tag.half_life_days,
                expires_after_days: parameters.expires_after_half_lives * tag.half_life_days,
            })
            .collect();
        // Stable: by name within a dimension.
        tags.sort_by_key(|tag| tag.dimension);
        let place = |n: usize| TagSlot(u8::try_from(n).unwrap_or(u8::MAX));
        let mut by_name: Vec<_> = tags.iter().enumerate().map(|(n, tag)| (tag.name.clone(), place(n))).collect();
        by_name.sort_unstable();
        let slots = Dimension::ALL.map(|dimension| {
            tags.partition_point(|tag| tag.dimension < dimension)
                ..tags.partition_point(|tag| tag.dimension <= dimension)
        });
        let of = |dimension| parameters.dimensions.get(&dimension).copied();
        let dimensions = Dimension::ALL.map(|dimension| {
            of(dimension).unwrap_or(DimensionParameters { weight: 0.0, facets: 1.0, weakest_link: 0.0 })
        });
        Self { parameters, digest, tags, by_name, dimensions, slots }
    }

    /// The numbers.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Their digest: `sha256:` and hex. Recorded with every score.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The tag of this name; none where it belongs to no dimension, and so is not counted.
    pub fn tag(&self, name: &str) -> Option<TagSlot> {
        let at = self.by_name.binary_search_by(|(other, _)| other.as_str().cmp(name)).ok()?;
        Some(self.by_name[at].1)
    }

    /// The name of a tag.
    pub fn tag_name(&self, tag: TagSlot) -> &str {
        self.tags.get(usize::from(tag.0)).map_or("", |tag| &tag.name)
    }

    /// What a tag measures.
    pub fn dimension_of(&self, tag: &str) -> Option<Dimension> {
        self.parameters.tags.get(tag).map(|tag| tag.dimension)
    }

    /// The tags of a dimension, by name.
    pub fn tags_of(&self, dimension: Dimension) -> impl Iterator<Item = &str> {
        self.tags[self.slots[dimension as usize].clone()].iter().map(|tag| tag.name.as_str())
    }
}
