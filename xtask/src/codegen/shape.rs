//! From the tree of a message to the Rust structs of its module: which structs there are and how they are called.
//!
//! A struct is named after its field. The same name at two places is one struct where the fields agree; where they do
//! not, each below another struct takes its parent's name as prefix.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use super::schema::{Base, Field, Message};

/// One Rust struct of a message's module; the first of a module is the message itself.
#[derive(Clone, Debug)]
pub struct Shape {
    pub name: String,
    pub versions: BTreeSet<i16>,
    pub fields: Vec<Member>,
}

/// A field of a shape, with the name of its struct if it holds one.
#[derive(Clone, Debug)]
pub struct Member {
    pub field: Field,
    pub struct_name: String,
}

/// A struct at its place in the tree.
struct Place<'a> {
    parent: Option<usize>,
    field_name: &'a str,
    versions: &'a BTreeSet<i16>,
    fields: &'a [Field],
    name: String,
}

/// The shapes of a message, the message first, then in the order of the schema.
pub fn shapes(message: &Message, nesting_depth_max: usize) -> Result<Vec<Shape>> {
    let mut places = Vec::new();
    collect(&mut places, None, &message.fields);
    let deepest = depth(&message.fields);
    ensure!(deepest <= nesting_depth_max, "{} nests {deepest} structs deep", message.name);
    name_places(&mut places);

    let mut shapes = vec![Shape {
        name: message.name.clone(),
        versions: message.versions.clone(),
        fields: members(&message.fields, &places, None),
    }];
    for (at, place) in places.iter().enumerate() {
        let fields = members(place.fields, &places, Some(at));
        match shapes.iter_mut().skip(1).find(|shape| shape.name == place.name) {
            Some(shape) => unite(shape, place.versions, &fields),
            None => shapes.push(Shape { name: place.name.clone(), versions: place.versions.clone(), fields }),
        }
    }
    Ok(shapes)
}

fn depth(fields: &[Field]) -> usize {
    fields.iter().filter(|f| f.base == Base::Struct).map(|f| 1 + depth(&f.fields)).max().unwrap_or(0)
}

fn collect<'a>(places: &mut Vec<Place<'a>>, parent: Option<usize>, fields: &'a [Field]) {
    for field in fields.iter().filter(|f| f.base == Base::Struct) {
        let at = places.len();
        let name = camel(&field.name);
        let (versions, fields) = (&field.versions, &field.fields[..]);
        places.push(Place { parent, field_name: &field.name, versions, fields, name });
        collect(places, Some(at), fields);
    }
}

fn name_places(places: &mut [Place<'_>]) {
    for at in 0..places.len() {
        let plain = camel(places[at].field_name);
        let alone = places
            .iter()
            .filter(|other| camel(other.field_name) == plain)
            .all(|other| agree(&places[at], other));
        if let (false, Some(parent)) = (alone, places[at].parent) {
            // Parents come first, so theirs is final.
            places[at].name = format!("{}{plain}", places[parent].name);
        }
    }
    for (at, place) in places.iter().enumerate() {
        for other in &places[..at] {
            assert!(other.name != place.name || agree(other, place), "two structs named {}", place.name);
        }
    }
}

/// Whether two structs can be one: the same fields, present and nullable in the same versions where both exist.
fn agree(a: &Place<'_>, b: &Place<'_>) -> bool {
    let both: BTreeSet<i16> = a.versions.intersection(b.versions).copied().collect();
    fields_agree(a.fields, b.fields, &both)
}

fn fields_agree(a: &[Field], b: &[Field], both: &BTreeSet<i16>) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| {
            let within = |set: &BTreeSet<i16>| set.intersection(both).copied().collect::<BTreeSet<_>>();
            (&a.name, a.array, a.base, a.tag, &a.default) == (&b.name, b.array, b.base, b.tag, &b.default)
                && a.nullable.is_empty() == b.nullable.is_empty()
                && within(&a.versions) == within(&b.versions)
                && within(&a.nullable) == within(&b.nullable)
                && fields_agree(&a.fields, &b.fields, both)
        })
}

fn members(fields: &[Field], places: &[Place<'_>], parent: Option<usize>) -> Vec<Member> {
    let struct_name = |field: &Field| {
        let place = places.iter().find(|p| p.parent == parent && p.field_name == field.name);
        place.map(|p| p.name.clone()).unwrap_or_default()
    };
    fields.iter().map(|field| Member { field: field.clone(), struct_name: struct_name(field) }).collect()
}

fn unite(shape: &mut Shape, versions: &BTreeSet<i16>, fields: &[Member]) {
    shape.versions.extend(versions);
    for (into, from) in shape.fields.iter_mut().zip(fields) {
        into.field.versions.extend(&from.field.versions);
        into.field.nullable.extend(&from.field.nullable);
        assert_eq!(into.struct_name, from.struct_name, "structs of {} that are one", shape.name);
    }
}

/// `topic_data` → `TopicData`.
pub fn camel(name: &str) -> String {
    name.split('_')
        .map(|word| {
            let (first, rest) = word.split_at(word.len().min(1));
            first.to_uppercase() + rest
        })
        .collect()
}

/// `KRaftVersionRecord` → `kraft_version_record`: a new word at each capital behind a small letter or digit. A
/// leading single capital stays with its word.
pub fn snake(name: &str) -> String {
    let mut out = String::new();
    let letters: Vec<char> = name.chars().collect();
    for (at, letter) in letters.iter().enumerate() {
        if letter.is_uppercase() && at > 0 && !letters[at - 1].is_uppercase() {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::schema::parse;
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let message = &parse(text).unwrap()[0];
        shapes(message, 8).unwrap().into_iter().map(|s| s.name).collect()
    }

    /// Equal fields share a struct; other fields under the same name are told apart by the parent.
    #[test]
    fn names_are_told_apart_by_the_parent() {
        let text = "request 9 R versions 1-9 flexible none\n  groups []struct 8+\n    topics []struct 8+\n      id uuid 8+\n      partitions []struct 8+\n        index int32 8+\n  topics []struct 1-7\n    partitions []struct 1-7\n      index int32 1-7\n";
        assert_eq!(names(text), ["R", "Groups", "GroupsTopics", "Partitions", "Topics"]);
    }

    /// Names of messages and fields in the two cases.
    #[test]
    fn cases() {
        assert_eq!(camel("v3_and_below_topics"), "V3AndBelowTopics");
        assert_eq!(snake("KRaftVersionRecord"), "kraft_version_record");
        assert_eq!(snake("EndTxnRequest"), "end_txn_request");
    }
}
