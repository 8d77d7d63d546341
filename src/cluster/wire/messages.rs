//! The messages, as Protocol Buffers. Plans, expressions, schemas and scalar values within them are DataFusion's own messages.

use datafusion_proto::protobuf::{PhysicalExprNode, PhysicalPlanNode, PhysicalSortExprNode};
use datafusion_proto::protobuf::{ScalarValue, Schema};
use prost::{Message, Oneof};

/// Indices of samples, ascending: numbers of indices to leave out and to take, by turns.
#[derive(Clone, PartialEq, Message)]
pub struct Samples {
    #[prost(uint32, repeated, tag = "1")]
    pub runs: Vec<u32>,
}

/// A named set of samples.
#[derive(Clone, PartialEq, Message)]
pub struct Population {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, required, tag = "2")]
    pub samples: Samples,
}

/// The samples of a genotype column.
#[derive(Clone, PartialEq, Message)]
pub struct Context {
    #[prost(string, optional, tag = "1")]
    pub store: Option<String>,
    #[prost(bool, tag = "2")]
    pub has_ids: bool,
    #[prost(string, repeated, tag = "3")]
    pub ids: Vec<String>,
    #[prost(string, optional, tag = "4")]
    pub samples_key: Option<String>,
    #[prost(string, optional, tag = "5")]
    pub populations_key: Option<String>,
    #[prost(message, repeated, tag = "6")]
    pub populations: Vec<Population>,
    #[prost(uint64, optional, tag = "7")]
    pub n_alleles: Option<u64>,
    #[prost(uint64, tag = "8")]
    pub ploidy: u64,
    #[prost(uint64, tag = "9")]
    pub n_samples: u64,
}

/// A call on genotypes.
#[derive(Clone, PartialEq, Message)]
pub struct Call {
    /// The number of the function, as `calls` counts them.
    #[prost(uint32, tag = "1")]
    pub function: u32,
    #[prost(message, optional, tag = "2")]
    pub samples: Option<Samples>,
    #[prost(message, repeated, tag = "3")]
    pub populations: Vec<Population>,
    #[prost(message, repeated, tag = "4")]
    pub filters: Vec<Filter>,
}

/// A filter of calls by a FORMAT field.
#[derive(Clone, PartialEq, Message)]
pub struct Filter {
    #[prost(string, tag = "1")]
    pub array: String,
    #[prost(uint64, optional, tag = "2")]
    pub value: Option<u64>,
    #[prost(oneof = "Test", tags = "3, 4, 5, 6, 7")]
    pub test: Option<Test>,
}

/// What a filter requires.
#[derive(Clone, PartialEq, Oneof)]
pub enum Test {
    #[prost(bool, tag = "3")]
    Present(bool),
    #[prost(message, tag = "4")]
    Integers(IntegerBounds),
    #[prost(message, tag = "5")]
    Floats(FloatBounds),
    #[prost(string, tag = "6")]
    Text(String),
    #[prost(bool, tag = "7")]
    Flag(bool),
}

/// Bounds as decimal numbers, since they may have 128 bits.
#[derive(Clone, PartialEq, Message)]
pub struct IntegerBounds {
    #[prost(string, optional, tag = "1")]
    pub min: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub max: Option<String>,
}

/// Bounds, never NaN.
#[derive(Clone, PartialEq, Message)]
pub struct FloatBounds {
    #[prost(double, optional, tag = "1")]
    pub min: Option<f64>,
    #[prost(double, optional, tag = "2")]
    pub max: Option<f64>,
}

/// How the stores of a table are opened, and what they must contain.
#[derive(Clone, PartialEq, Message)]
pub struct Table {
    #[prost(string, repeated, tag = "1")]
    pub locations: Vec<String>,
    #[prost(message, repeated, tag = "2")]
    pub options: Vec<KeyValue>,
    #[prost(string, tag = "3")]
    pub content_key: String,
}

/// An option.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

/// An input of a scan.
#[derive(Clone, PartialEq, Message)]
pub struct Input {
    #[prost(oneof = "InputKind", tags = "1, 2")]
    pub kind: Option<InputKind>,
}

/// What a scan reads or counts.
#[derive(Clone, PartialEq, Oneof)]
pub enum InputKind {
    #[prost(string, tag = "1")]
    Array(String),
    #[prost(message, tag = "2")]
    Call(Call),
}

/// The rows of a partition: first rows and ends, by turns.
#[derive(Clone, PartialEq, Message)]
pub struct Rows {
    #[prost(uint64, repeated, tag = "1")]
    pub ranges: Vec<u64>,
}

/// An expression and the name of its column.
#[derive(Clone, PartialEq, Message)]
pub struct Projected {
    #[prost(message, required, tag = "1")]
    pub expr: PhysicalExprNode,
    #[prost(string, tag = "2")]
    pub alias: String,
}

/// The columns that rows are sorted by.
#[derive(Clone, PartialEq, Message)]
pub struct Ordering {
    #[prost(message, repeated, tag = "1")]
    pub by: Vec<PhysicalSortExprNode>,
}

/// A scan.
#[derive(Clone, PartialEq, Message)]
pub struct Scan {
    #[prost(message, required, tag = "1")]
    pub table: Table,
    #[prost(message, repeated, tag = "2")]
    pub inputs: Vec<Input>,
    #[prost(message, required, tag = "3")]
    pub input_schema: Schema,
    #[prost(message, repeated, tag = "4")]
    pub projection: Vec<Projected>,
    #[prost(message, required, tag = "5")]
    pub schema: Schema,
    #[prost(message, repeated, tag = "6")]
    pub filters: Vec<PhysicalExprNode>,
    #[prost(message, required, tag = "7")]
    pub filter_schema: Schema,
    #[prost(uint64, optional, tag = "8")]
    pub limit: Option<u64>,
    #[prost(message, repeated, tag = "9")]
    pub partitions: Vec<Rows>,
    #[prost(message, repeated, tag = "10")]
    pub orderings: Vec<Ordering>,
    #[prost(message, repeated, tag = "11")]
    pub constants: Vec<PhysicalExprNode>,
}

/// A mask of accessible bases.
#[derive(Clone, PartialEq, Message)]
pub struct Mask {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, repeated, tag = "2")]
    pub contigs: Vec<MaskContig>,
}

/// The intervals of a contig: distances from the end of the one before, and lengths, by turns.
#[derive(Clone, PartialEq, Message)]
pub struct MaskContig {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(int64, repeated, tag = "2")]
    pub runs: Vec<i64>,
}

/// An operator.
#[derive(Clone, PartialEq, Message)]
pub struct Node {
    #[prost(oneof = "NodeKind", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12")]
    pub kind: Option<NodeKind>,
}

/// What an operator is.
#[derive(Clone, PartialEq, Oneof)]
pub enum NodeKind {
    #[prost(message, tag = "1")]
    Scan(Scan),
    /// One of DataFusion's operators, over empty inputs.
    #[prost(message, tag = "2")]
    Stock(PhysicalPlanNode),
    #[prost(message, tag = "3")]
    Runs(PhysicalPlanNode),
    #[prost(message, tag = "4")]
    LeftOut(PhysicalPlanNode),
    #[prost(message, tag = "5")]
    ByPopulation(ByPopulation),
    #[prost(message, tag = "6")]
    Interruptible(Nothing),
    #[prost(uint64, tag = "7")]
    ReserveWindowMemory(u64),
    #[prost(uint64, tag = "8")]
    WindowMemoryInput(u64),
    #[prost(message, tag = "9")]
    Held(Nothing),
    #[prost(message, tag = "10")]
    ShuffleInput(Nothing),
    #[prost(message, tag = "11")]
    Pairs(PhysicalPlanNode),
    #[prost(message, tag = "12")]
    GroupingSetsInput(Nothing),
}

/// No content.
#[derive(Clone, PartialEq, Message)]
pub struct Nothing {}

/// Partial aggregation by population.
#[derive(Clone, PartialEq, Message)]
pub struct ByPopulation {
    #[prost(message, required, tag = "1")]
    pub aggregate: PhysicalPlanNode,
    #[prost(uint64, tag = "2")]
    pub len: u64,
    #[prost(message, required, tag = "3")]
    pub schema: Schema,
    #[prost(uint64, tag = "4")]
    pub counts: u64,
    #[prost(message, repeated, tag = "5")]
    pub keys: Vec<PopulationKey>,
    #[prost(message, repeated, tag = "6")]
    pub calls: Vec<PopulationCall>,
}

/// A key: an expression of the variant, or else the value of each population.
#[derive(Clone, PartialEq, Message)]
pub struct PopulationKey {
    #[prost(message, optional, tag = "1")]
    pub variant: Option<PhysicalExprNode>,
    #[prost(message, repeated, tag = "2")]
    pub populations: Vec<ScalarValue>,
}

/// A call's arguments and its FILTER.
#[derive(Clone, PartialEq, Message)]
pub struct PopulationCall {
    #[prost(message, repeated, tag = "1")]
    pub arguments: Vec<PopulationValue>,
    #[prost(message, optional, tag = "2")]
    pub filter: Option<PopulationValue>,
}

/// An expression of the variant, or else that of each population.
#[derive(Clone, PartialEq, Message)]
pub struct PopulationValue {
    #[prost(message, optional, tag = "1")]
    pub variant: Option<PhysicalExprNode>,
    #[prost(message, repeated, tag = "2")]
    pub populations: Vec<PhysicalExprNode>,
}

/// The field of an expression, as the only one of a schema.
#[derive(Clone, PartialEq, Message)]
pub struct FieldOf {
    #[prost(message, required, tag = "1")]
    pub field: Schema,
}

/// What a scalar function is bound to.
#[derive(Clone, PartialEq, Message)]
pub struct ScalarFunction {
    #[prost(oneof = "ScalarKind", tags = "1, 2, 3")]
    pub kind: Option<ScalarKind>,
}

/// What a scalar function is bound to.
#[derive(Clone, PartialEq, Oneof)]
pub enum ScalarKind {
    #[prost(message, boxed, tag = "1")]
    Genotypes(Box<BoundCall>),
    #[prost(message, tag = "2")]
    Calls(SelectedCalls),
    #[prost(message, tag = "3")]
    Mask(Mask),
}

/// A call on genotypes, the context of its genotypes, and that of its result.
#[derive(Clone, PartialEq, Message)]
pub struct BoundCall {
    #[prost(message, required, tag = "1")]
    pub call: Call,
    #[prost(message, required, tag = "2")]
    pub genotypes: Context,
    #[prost(message, optional, tag = "3")]
    pub selected: Option<Context>,
}

/// The samples of a FORMAT field that are selected.
#[derive(Clone, PartialEq, Message)]
pub struct SelectedCalls {
    #[prost(message, required, tag = "1")]
    pub samples: Samples,
    #[prost(message, required, tag = "2")]
    pub selected: Context,
    #[prost(uint64, tag = "3")]
    pub n_samples: u64,
}

/// An aggregate function.
#[derive(Clone, PartialEq, Message)]
pub struct AggregateFunction {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(oneof = "AggregateKind", tags = "2, 3, 4, 5")]
    pub kind: Option<AggregateKind>,
}

/// What an aggregate function is, beside its name.
#[derive(Clone, PartialEq, Oneof)]
pub enum AggregateKind {
    /// It reports the sites that it leaves out.
    #[prost(message, tag = "2")]
    Reporting(Reports),
    /// It is bound to samples.
    #[prost(message, tag = "3")]
    OfSamples(Context),
    /// The states of another one.
    #[prost(message, tag = "4")]
    States(Box<AggregateFunction>),
    /// The merge of such states.
    #[prost(message, tag = "5")]
    Merge(Box<Merge>),
}

/// To what an aggregate reports.
#[derive(Clone, PartialEq, Message)]
pub struct Reports {
    #[prost(bool, tag = "1")]
    pub to_notices: bool,
    #[prost(bool, tag = "2")]
    pub for_analyze: bool,
}

/// The aggregate whose states are merged, and the arguments of its call: fields, and constants by the place of their argument.
#[derive(Clone, PartialEq, Message)]
pub struct Merge {
    #[prost(message, required, boxed, tag = "1")]
    pub of: Box<AggregateFunction>,
    #[prost(message, required, tag = "2")]
    pub fields: Schema,
    #[prost(message, repeated, tag = "3")]
    pub constants: Vec<Constant>,
}

/// A constant argument.
#[derive(Clone, PartialEq, Message)]
pub struct Constant {
    #[prost(uint64, tag = "1")]
    pub place: u64,
    #[prost(message, required, tag = "2")]
    pub value: ScalarValue,
}
