//! A slab: storage for items in flight, with keys that are never reused.
//!
//! A [`Key`] is a serial number and a slot. A lookup is one index and one comparison, no hashing. The key of a removed
//! item stays recognisable for ever, which separates late answers from wrong ones. On the wire a key is
//! `serial × 65536 + slot`. This stays below 2⁵³, the largest integer that every JSON reader keeps exact, for more than a
//! hundred billion calls.

/// The key of one item in a [`Slab`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u64);

const SLOT_BITS: u32 = 16;
/// The capacity of a slab.
pub const CAPACITY: usize = 1 << SLOT_BITS;

impl Key {
    /// The key as the number that goes over the wire.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The key that a number from the wire would be.
    pub fn from_number(number: u64) -> Key {
        Key(number)
    }

    fn new(serial: u64, slot: usize) -> Key {
        Key(serial << SLOT_BITS | slot as u64)
    }

    fn slot(self) -> usize {
        (self.0 & (CAPACITY as u64 - 1)) as usize
    }

    fn serial(self) -> u64 {
        self.0 >> SLOT_BITS
    }
}

/// A slab.
#[derive(Debug)]
pub struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u16>,
    serial: u64,
}

#[derive(Debug)]
struct Slot<T> {
    serial: u64,
    thing: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { slots: Vec::new(), free: Vec::new(), serial: 0 }
    }
}

impl<T> Slab<T> {
    /// The number of items.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns whether the slab is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Inserts an item; `None` when the slab is full.
    pub fn insert(&mut self, thing: T) -> Option<Key> {
        let slot = match self.free.pop() {
            Some(slot) => slot as usize,
            None if self.slots.len() < CAPACITY => {
                self.slots.push(Slot { serial: 0, thing: None });
                self.slots.len() - 1
            }
            None => return None,
        };
        self.serial += 1;
        self.slots[slot] = Slot { serial: self.serial, thing: Some(thing) };
        Some(Key::new(self.serial, slot))
    }

    /// The item of this key.
    pub fn get(&self, key: Key) -> Option<&T> {
        let slot = self.slots.get(key.slot())?;
        if slot.serial == key.serial() { slot.thing.as_ref() } else { None }
    }

    /// The item of this key, mutable.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.slot())?;
        if slot.serial == key.serial() { slot.thing.as_mut() } else { None }
    }

    /// Removes an item.
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.slot())?;
        if slot.serial != key.serial() {
            return None;
        }
        let thing = slot.thing.take()?;
        self.free.push(key.slot() as u16);
        Some(thing)
    }

    /// Gives an item a new key in its slot. The old key finds nothing any more.
    pub fn rename(&mut self, key: Key) -> Option<Key> {
        self.get(key)?;
        self.serial += 1;
        self.slots[key.slot()].serial = self.serial;
        Some(Key::new(self.serial, key.slot()))
    }

    /// Returns whether this key was ever issued.
    pub fn was_issued(&self, key: Key) -> bool {
        key.serial() >= 1 && key.serial() <= self.serial && key.slot() < self.slots.len()
    }

    /// All items with their keys, by slot.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(slot, it)| it.thing.as_ref().map(|thing| (Key::new(it.serial, slot), thing)))
    }

    /// All keys, oldest first.
    pub fn keys_by_age(&self) -> Vec<Key> {
        let mut keys: Vec<Key> = self.iter().map(|(key, _)| key).collect();
        keys.sort_unstable();
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unique_and_find_only_their_own_item() {
        let mut slab = Slab::default();
        let a = slab.insert("a").unwrap();
        assert_eq!(slab.remove(a), Some("a"));
        let b = slab.insert("b").unwrap();
        assert_ne!(a, b, "same slot, new serial");
        assert_eq!(slab.remove(a), None);
        assert_eq!((slab.get(a), slab.get(b)), (None, Some(&"b")));
        assert!(slab.was_issued(a) && slab.was_issued(b));
        assert!(!slab.was_issued(Key::from_number(b.number() + 65536)), "not issued yet");
        assert!(!slab.was_issued(Key::from_number(0)), "never issued");
    }

    #[test]
    fn renamed_item_is_found_by_its_new_key_only() {
        let mut slab = Slab::default();
        let old = slab.insert(1).unwrap();
        let new = slab.rename(old).unwrap();
        assert_eq!((slab.get(old), slab.get(new), slab.len()), (None, Some(&1), 1));
        assert_eq!(slab.rename(old), None);
    }

    #[test]
    fn full_slab_refuses_an_item() {
        let mut slab = Slab::default();
        for n in 0..CAPACITY {
            assert!(slab.insert(n).is_some());
        }
        assert_eq!(slab.insert(0), None);
    }
}
