//! What a model knows, for people to read: every path with its types, how often it was there, and what it held.

use std::collections::HashMap;

use super::{
    model::{Model, Node},
    observe::{NONE, Paths, unscaled},
};
use crate::{
    fields::PathId,
    inspect::{KnownPath, Type},
};

/// Paths listed.
const MAX_LISTED: usize = 200;
/// Nesting listed.
const MAX_DEPTH: usize = 16;

/// A step from a value to one within it.
pub(crate) type Step = Option<Box<str>>;

impl Model {
    /// The paths it knows, parents before members, each with the steps that lead to it.
    pub(crate) fn known(&self, paths: Paths) -> Vec<(Vec<Step>, KnownPath)> {
        let mut listed = Vec::new();
        let ids: HashMap<u32, PathId> = self.paths.iter().map(|(path, node)| (*node, *path)).collect();
        self.list((paths, &ids), 0, &mut Vec::new(), &mut listed);
        listed
    }

    fn list(
        &self,
        (paths, ids): (Paths, &HashMap<u32, PathId>),
        path: PathId,
        steps: &mut Vec<Step>,
        listed: &mut Vec<(Vec<Step>, KnownPath)>,
    ) {
        let Some(node) = self.nodes.get(self.find(path) as usize) else { return };
        if listed.len() == MAX_LISTED || steps.len() > MAX_DEPTH {
            return;
        }
        listed.push((steps.clone(), self.describe(node, steps)));
        if self.find(paths.item(path)) != NONE {
            steps.push(None);
            self.list((paths, ids), paths.item(path), steps, listed);
            steps.pop();
        }
        let children = node.object.iter().flat_map(|object| &object.children);
        for (child, name) in children {
            let Some(path) = ids.get(child).copied() else { continue };
            if listed.len() == MAX_LISTED {
                return;
            }
            steps.push(Some(name.clone()));
            self.list((paths, ids), path, steps, listed);
            steps.pop();
        }
    }

    fn describe(&self, node: &Node, steps: &[Step]) -> KnownPath {
        let mut path = String::new();
        for step in steps {
            match step {
                None => path += "[]",
                Some(name) if path.is_empty() => path += name,
                Some(name) => path = format!("{path}.{name}"),
            }
        }
        let unscale = |(low, high): (f64, f64)| (unscaled(low), unscaled(high));
        let (seen, values) = node.values.size();
        KnownPath {
            path: crate::fields::shortened(path),
            types: Type::ALL.into_iter().filter(|kind| node.kinds.knows(*kind as u32)).collect(),
            presence: f64::from(node.results.seen() / self.results.max(1.0)).min(1.0),
            numbers: node.number.as_ref().map(|number| unscale(number.range.bounds())),
            lengths: (node.lengths.seen() > 0.0).then(|| unscale(node.lengths.bounds())),
            // As many values as results are names, not a set.
            values: (values > 0 && (values as f32) < seen * 0.5).then_some(values),
            echoes: !node.echoes.is_empty(),
        }
    }
}
