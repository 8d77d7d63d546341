//! The entropy tables and bit streams of zstd's sequences: finite state entropy, RFC 8878, section 4.1.
//!
//! Used by [`zstd_sequences`](super::zstd_sequences), and no more than that needs. Everything is bounded and checked: what is
//! not valid, or reads past an end, is `None`.

/// The most states of a table, for an accuracy of 9 bits.
const MAX_STATES: usize = 512;
/// One more than the largest symbol of any table: codes of match lengths.
pub(super) const MAX_SYMBOLS: usize = 53;

/// What a state stands for, and how to get to the next.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct State {
    pub(super) symbol: u8,
    bits: u8,
    base: u16,
}

/// A decoding table.
#[derive(Clone)]
pub(super) struct Table {
    states: [State; MAX_STATES],
    log: u32,
}

impl Table {
    /// The table of a code in which every symbol is this one, in no bits.
    pub(super) const fn of_one(symbol: u8) -> Table {
        let mut states = [State {
            symbol: 0,
            bits: 0,
            base: 0,
        }; MAX_STATES];
        states[0].symbol = symbol;
        Table { states, log: 0 }
    }

    /// The table of symbols with these probabilities, which add up to `1 << log`: -1 is less than one. `log` is 5 to 9.
    pub(super) const fn new(probabilities: &[i16], log: u32) -> Table {
        let mut table = Table::of_one(0);
        table.log = log;
        let size = 1usize << log;
        // States of a symbol, to be numbered from there on.
        let mut next = [0u16; MAX_SYMBOLS];
        let mut high = size;
        let mut symbol = 0;
        while symbol < probabilities.len() {
            if probabilities[symbol] < 0 {
                high -= 1;
                table.states[high].symbol = symbol as u8;
                next[symbol] = 1;
            } else {
                next[symbol] = probabilities[symbol] as u16;
            }
            symbol += 1;
        }
        let step = (size >> 1) + (size >> 3) + 3;
        let mut at = 0;
        symbol = 0;
        while symbol < probabilities.len() {
            let mut i = 0;
            while i < probabilities[symbol] {
                table.states[at].symbol = symbol as u8;
                at = (at + step) & (size - 1);
                while at >= high {
                    at = (at + step) & (size - 1);
                }
                i += 1;
            }
            symbol += 1;
        }
        let mut i = 0;
        while i < size {
            let state = &mut table.states[i];
            let n = next[state.symbol as usize];
            next[state.symbol as usize] += 1;
            // `n` is 1 or more for a symbol that has a state.
            state.bits = (log - n.ilog2()) as u8;
            state.base = (n << state.bits) - size as u16;
            i += 1;
        }
        table
    }

    /// The state that a stream starts with.
    pub(super) fn start(&self, bits: &mut Bits<'_>) -> Option<State> {
        self.state(bits.take(self.log)?)
    }

    /// The state after `state`.
    pub(super) fn next(&self, state: State, bits: &mut Bits<'_>) -> Option<State> {
        self.state(u32::from(state.base) + bits.take(state.bits.into())?)
    }

    fn state(&self, index: u32) -> Option<State> {
        self.states.get(index as usize).copied()
    }
}

/// The probabilities of symbols, from which a table is made when it is needed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Description {
    probabilities: [i16; MAX_SYMBOLS],
    symbols: usize,
    log: u32,
}

impl Description {
    /// Reads a table's description off the front of `src`: for symbols up to `max_symbol`, of at most `max_log` bits.
    pub(super) fn read(src: &mut &[u8], max_symbol: u8, max_log: u32) -> Option<Description> {
        let max_symbol = usize::from(max_symbol);
        let bytes = *src;
        let mut at = 0;
        // Up to 16 bits from the next on; those past the end are zeros.
        let peek = |at: usize, n: u32| {
            let mut word = [0u8; 4];
            for (to, from) in word.iter_mut().zip(bytes.get(at / 8..).unwrap_or_default()) {
                *to = *from;
            }
            u32::from_le_bytes(word) >> (at % 8) & ((1 << n) - 1)
        };
        let log = peek(at, 4) + 5;
        at += 4;
        if log > max_log || max_log > 9 || max_symbol >= MAX_SYMBOLS {
            return None;
        }
        let mut probabilities = [0i16; MAX_SYMBOLS];
        let mut left = 1i32 << log;
        let mut symbol = 0;
        while left > 0 {
            if symbol > max_symbol || at > 8 * bytes.len() {
                return None;
            }
            // One of 0 to `left + 1`: the smaller ones take a bit less.
            let largest = left as u32 + 1;
            let bits = largest.ilog2() + 1;
            let short = (1 << bits) - 1 - largest;
            let x = peek(at, bits);
            let low = x & ((1 << (bits - 1)) - 1);
            let value = if low < short {
                at += bits as usize - 1;
                low
            } else {
                at += bits as usize;
                if x == low { x } else { x - short }
            };
            let probability = value as i16 - 1;
            left -= i32::from(probability.abs());
            *probabilities.get_mut(symbol)? = probability;
            symbol += 1;
            if probability == 0 {
                loop {
                    let more = peek(at, 2);
                    at += 2;
                    symbol += more as usize;
                    if more < 3 {
                        break;
                    }
                    if symbol > max_symbol {
                        return None;
                    }
                }
            }
        }
        *src = bytes.get(at.div_ceil(8)..)?;
        if left < 0 || symbol > max_symbol + 1 {
            return None;
        }
        Some(Description {
            probabilities,
            symbols: symbol,
            log,
        })
    }

    /// The table.
    pub(super) fn table(&self) -> Table {
        Table::new(
            self.probabilities.get(..self.symbols).unwrap_or(&[]),
            self.log,
        )
    }
}

/// A bit stream that is read from its end: below the highest bit that is set in the last byte.
#[derive(Debug, Clone)]
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    /// Bits that are left.
    left: usize,
}

impl<'a> Bits<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Option<Bits<'a>> {
        let last = bytes.last()?.checked_ilog2()?;
        let left = (bytes.len() - 1) * 8 + last as usize;
        Some(Bits { bytes, left })
    }

    /// The next `n` bits, at most 31, as a number.
    pub(super) fn take(&mut self, n: u32) -> Option<u32> {
        self.left = self.left.checked_sub(n as usize)?;
        let from = self.bytes.get(self.left / 8..)?;
        let word = match from.first_chunk::<8>() {
            Some(word) => u64::from_le_bytes(*word),
            None => from
                .iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        Some((word >> (self.left % 8)) as u32 & ((1 << n) - 1))
    }

    /// Whether all bits have been taken.
    pub(super) fn is_empty(&self) -> bool {
        self.left == 0
    }
}
