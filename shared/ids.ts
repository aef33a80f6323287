/**
 * Whether this id was given after that one. GitHub's ids are decimal numbers that grow and may exceed what a number is sure of, so
 * they stay text: the longer one is the larger, of two of one length the one that comes later in text order.
 */
export function isLaterId(id: string, than: string): boolean {
  return id.length === than.length ? id > than : id.length > than.length;
}
