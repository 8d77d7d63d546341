//! The list of codecs of an array as steps.
//!
//! Zarr v2 says nothing about which codec takes arrays and which takes bytes. The list made of it has `bytes` where the filters
//! end (see `array_v2` of the store layer), so a filter that already makes bytes is followed by a `bytes` that does nothing, and a
//! compressor that takes arrays (`pcodec`) comes after one.

use std::sync::Arc;

use serde_json::Value;

use super::super::CodecError;
use super::super::chain::{CodecChain, Serializer};
use super::super::fill::Fill;
use super::super::parse::{self, Layout};
use super::super::transpose::Transpose;
use super::bytes_step::BytesStep;
use super::chain::ForeignChain;
use super::filter::Filter;
use super::names::plain;
use super::packing::Packing;
use super::pcodec;
use super::reshape::reshaped;
use super::zarrs_codec::ZarrsPacking;
use crate::store::{CodecSpec, ElementType, Endianness, FillValue, ZarrFormat};

/// Most codecs of a chain, each of which may take a copy of the chunk.
const MAX_CODECS: usize = 16;

impl ForeignChain {
    /// The chain of chunks of a layout as one whose serializer is a [`ForeignChain`]. The error names the codec that is not
    /// supported.
    pub(in super::super) fn parse(
        layout: &Layout<'_>,
        codecs: &[CodecSpec],
    ) -> Result<CodecChain, CodecError> {
        let elements = layout.elements()?;
        if codecs.len() > MAX_CODECS {
            let n = codecs.len();
            return Err(format!("{n} codecs; expected at most {MAX_CODECS}").into());
        }
        let mut steps = Steps::new(layout, elements);
        let mut rest = codecs;
        let packing = loop {
            let Some((codec, after)) = rest.split_first() else {
                return Err(parse::no_serializer());
            };
            rest = after;
            if let Some(packing) = steps.push(codec, &mut rest)? {
                break packing;
            }
        };
        let element = steps.element;
        let bytes_steps = rest
            .iter()
            .map(|codec| {
                BytesStep::parse(codec, element)?
                    .ok_or_else(|| parse::unsupported(&codec.name, "after the array's bytes"))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let foreign = ForeignChain::new(
            layout.element,
            elements,
            steps.filters,
            packing,
            bytes_steps,
            &steps.names,
        );
        Ok(CodecChain {
            element: layout.element,
            shape: layout.shape.to_vec(),
            elements,
            transpose: Transpose::identity(layout.shape.len()),
            serializer: Serializer::Foreign(Arc::new(foreign)),
            compressors: Vec::new(),
            fill: Fill::new(&layout.element, layout.fill)?,
        })
    }
}

/// The array → array steps so far, and what the next codec takes.
struct Steps<'a> {
    layout: &'a Layout<'a>,
    elements: usize,
    filters: Vec<Filter>,
    names: Vec<&'a str>,
    element: ElementType,
    /// Transposes that no filter follows so far, and the shape before them.
    transposes: Vec<CodecSpec>,
    shape: Vec<usize>,
}

impl<'a> Steps<'a> {
    fn new(layout: &'a Layout<'a>, elements: usize) -> Self {
        Self {
            layout,
            elements,
            filters: Vec::new(),
            names: Vec::new(),
            element: layout.element,
            transposes: Vec::new(),
            shape: layout.shape.to_vec(),
        }
    }

    /// Adds a codec. Returns the array → bytes step if it is one; `rest` then begins with the first bytes → bytes codec.
    fn push(
        &mut self,
        codec: &'a CodecSpec,
        rest: &mut &[CodecSpec],
    ) -> Result<Option<Packing>, CodecError> {
        let (name, configuration) = (plain(&codec.name), &codec.configuration);
        if name == "transpose" {
            self.transposes.push(codec.clone());
            return Ok(None);
        }
        if let Some(shape) = reshaped(name, configuration, &self.shape)? {
            if self.element == ElementType::String && !self.transposes.is_empty() {
                return Err(
                    format!("{name}: after a transpose of text it is not supported").into(),
                );
            }
            self.transpose()?;
            self.shape = shape;
            self.names.push(name);
            return Ok(None);
        }
        if let Some(filter) = Filter::parse(name, configuration, self.element)? {
            self.transpose()?;
            self.element = filter.encoded;
            self.filters.push(filter);
            self.names.push(name);
            return Ok(None);
        }
        let of_numcodecs = self.layout.format == ZarrFormat::V2 || name != codec.name;
        Ok(Some(match name {
            "packbits" if of_numcodecs => {
                if self.element != ElementType::Bool {
                    return Err(self.unfit(name, "bool"));
                }
                skip(rest, "bytes");
                self.transpose()?;
                Packing::PackBits
            }
            "packbits" => {
                self.transpose()?;
                let packing = ZarrsPacking::packbits(configuration, self.element, self.elements);
                Packing::Zarrs(packing?)
            }
            "pcodec" => {
                skip(rest, "bytes");
                self.pcodec()?
            }
            "bytes" if self.layout.format == ZarrFormat::V2 && skip(rest, "pcodec") => {
                self.pcodec()?
            }
            "bytes" | "vlen-utf8" | "vlen-bytes" | "sharding_indexed" => self.chain(codec)?,
            _ => {
                let place = format!("on elements of type {}", self.element);
                return Err(parse::unsupported(&codec.name, &place));
            }
        }))
    }

    fn pcodec(&mut self) -> Result<Packing, CodecError> {
        self.transpose()?;
        match pcodec::supports(self.element) {
            true => Ok(Packing::Pcodec),
            false => Err(self.unfit("pcodec", "numbers of two, four or eight bytes")),
        }
    }

    /// Makes steps of the transposes, for a step that takes elements in their order.
    fn transpose(&mut self) -> Result<(), CodecError> {
        for codec in std::mem::take(&mut self.transposes) {
            let (filter, shape) =
                Filter::transpose(&codec.configuration, &self.shape, self.element)?;
            self.filters.push(filter);
            self.names.push("transpose");
            self.shape = shape;
        }
        Ok(())
    }

    /// The array → bytes codec of the fast path, with the transposes before it.
    fn chain(&self, codec: &CodecSpec) -> Result<Packing, CodecError> {
        let moves = ["transpose", "reshape", "squeeze"];
        let has_filters = self.names.iter().any(|name| !moves.contains(name));
        // An inner chunk that is not stored would have to be filled with the encoded fill value.
        if has_filters && codec.name == "sharding_indexed" && !self.fills_with_zeros()? {
            return Err(
                "sharding_indexed after a filter is supported where the fill value is 0 only"
                    .into(),
            );
        }
        let mut codec = codec.clone();
        if has_filters && codec.name == "bytes" && self.layout.format == ZarrFormat::V2 {
            let order = self.order(codec.configuration.get("endian"))?;
            codec
                .configuration
                .insert("endian".to_owned(), order.into());
        }
        let layout = Layout {
            element: self.element,
            fill: match has_filters {
                true => &FillValue::Null,
                false => self.layout.fill,
            },
            shape: &self.shape,
            ..*self.layout
        };
        let codecs: Vec<CodecSpec> = self.transposes.iter().cloned().chain([codec]).collect();
        let chain = CodecChain::parse(&layout, &codecs)?;
        Ok(Packing::Chain(Box::new(chain)))
    }

    /// In Zarr v2 the order of the bytes that the last filter makes, where that of the array's type is `order`.
    fn order(&self, order: Option<&Value>) -> Result<String, CodecError> {
        let mut order = match order.and_then(Value::as_str) {
            Some("little") => Some(Endianness::Little),
            Some("big") => Some(Endianness::Big),
            _ => None,
        };
        for (filter, name) in self.filters.iter().zip(&self.names) {
            let (decoded, encoded) = filter.orders;
            // numcodecs would take the bytes for other numbers.
            if let (Some(expected), Some(found)) = (order, decoded)
                && expected != found
                && filter.decoded.has_endianness()
            {
                return Err(format!(
                    "{name}: its 'dtype' is {found}-endian, but the elements are {expected}-endian"
                )
                .into());
            }
            order = encoded.or(order);
        }
        Ok(order.unwrap_or(Endianness::Little).to_string())
    }

    fn fills_with_zeros(&self) -> Result<bool, CodecError> {
        Ok(Fill::new(&self.layout.element, self.layout.fill)?.is_zero())
    }

    fn unfit(&self, name: &str, expected: &str) -> CodecError {
        let element = self.element;
        format!("{name}: the elements are of type {element}; expected {expected}").into()
    }
}

/// Leaves out the next codec if it has this name.
fn skip(rest: &mut &[CodecSpec], name: &str) -> bool {
    match rest.split_first() {
        Some((next, after)) if plain(&next.name) == name => {
            *rest = after;
            true
        }
        _ => false,
    }
}
