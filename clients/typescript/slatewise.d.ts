// Written by generate.py from the OpenAPI document: do not change it by hand.

export interface Options {
  /** a token of the service; none where it is open */
  token?: string;
  /** milliseconds for an answer */
  timeout?: number;
  /** how often a request is sent at most, when it is refused for the time being or not answered */
  attempts?: number;
  /** what sends requests; the platform's own unless given */
  fetch?: typeof fetch;
}

/** What the service refused, or could not do. */
export declare class ServiceError extends Error {
  readonly status: number;
  readonly problem: { title?: string; detail?: string; remedy?: string; [name: string]: unknown };
}

/** A client of the live service. */
export declare class Client {
  constructor(url: string, options?: Options);

  /** Make a slate. */
  recommend(body: RecommendBody): Promise<RecommendAnswer>;

  /** Order given items. */
  rank(body: RankBody): Promise<RankAnswer>;

  /** Report what became of slates. */
  feedback(body: FeedbackBody): Promise<FeedbackAnswer>;

  /** List items. */
  listItems(query?: { after?: string | null; limit?: number; search?: string; numbers?: boolean }): Promise<ItemsAnswer>;

  /** Add, show or hide items, all or none. */
  putItems(body: ItemsBody): Promise<ChangedAnswer>;

  /** See an item. */
  getItem(itemId: string): Promise<ItemAnswer>;

  /** Add, show or hide an item. */
  putItem(itemId: string, body: ItemBody): Promise<ChangedItemAnswer>;

  /** Remove an item. */
  removeItem(itemId: string): Promise<ItemAnswer>;

  /** Slates and clicks of a person. */
  getUser(userId: string): Promise<UserAnswer>;

  /** Erase a person. */
  eraseUser(userId: string): Promise<ErasedAnswer>;
}

/** How many items were changed: in effect for every request from now on. */
export interface ChangedAnswer {
  changed: number;
  /** what does not count yet; left out if all does */
  notes?: string[] | null;
}

/** An item as it is from now on. */
export interface ChangedItemAnswer {
  id: string;
  group: string;
  state: "shown" | "hidden" | "removed";
  /** as sent to the service; left out if it has none */
  features?: Record<string, unknown> | null;
  /** what models that serve know of it, by their names, where that was asked for */
  numbers?: Record<string, ItemNumbersAnswer> | null;
  /** what does not count yet; left out if all does */
  notes?: string[] | null;
}

/** What was erased. */
export interface ErasedAnswer {
  user_id: string;
  slates: number;
  /** what is left of it for the moment */
  notes: string[];
}

/** What a user did with a slate; for a slate that others made, also what it was. */
export interface Event {
  /** of the answer to /v1/recommend, or chosen by you for a slate of yours */
  slate_id: string;
  /** how many items she saw, from the first; all if not given */
  seen?: number | null;
  /** the item or items she clicked, in order; null for none */
  clicked?: string | number | (string | number)[] | null;
  /** when, as ISO 8601 with an offset or in microseconds since 1970; now if not given */
  time?: number | string | null;
  /** who saw it: of a slate of yours; of one of the service, if given, whom it was made for */
  user_id?: string | number | null;
  /** of a slate of yours: where it was shown */
  source?: string | null;
  /** of a slate of yours: what it had, in order */
  items?: (string | number)[] | null;
}

/** What became of an event. */
export interface EventAnswer {
  slate_id: string;
  status: "recorded" | "duplicate" | "refused";
  /** of a refused event, or of one whose time was put right */
  problem?: string | null;
  remedy?: string | null;
}

/** What became of the events, in their order: all that is recorded is on disk. */
export interface FeedbackAnswer {
  events: EventAnswer[];
  recorded: number;
  duplicate: number;
  refused: number;
}

/** What happened, in any order; an event sent twice counts once. */
export interface FeedbackBody {
  events: Event[];
}

/** An item as it is now. */
export interface ItemAnswer {
  id: string;
  group: string;
  state: "shown" | "hidden" | "removed";
  /** as sent to the service; left out if it has none */
  features?: Record<string, unknown> | null;
  /** what models that serve know of it, by their names, where that was asked for */
  numbers?: Record<string, ItemNumbersAnswer> | null;
}

/** An item to be offered, or to be kept back. */
export interface ItemBody {
  /** what it is among: new items start from what is known of their group */
  group: string;
  state?: "shown" | "hidden";
  /**
   * what is known of it, for models that were trained with such features; all that there
   * are, or null to keep those that the service has
   */
  features?: Record<string, number | boolean | string | number[] | string[] | null> | null;
}

/** What a model knows of an item. */
export interface ItemNumbersAnswer {
  /** how often training saw it; 0 for an item that came since */
  views: number;
  /** posterior standard deviation of its vector, the root mean square over dimensions */
  scale: number;
  /** posterior mean of its bias; 0 where the model has none */
  bias: number;
}

/** Items by their ids. */
export interface ItemsAnswer {
  items: ItemAnswer[];
  /** what to give as `after` for the following page; null on the last */
  next: string | null;
}

/** Items to be offered or kept back, all or none. */
export interface ItemsBody {
  items: NamedItemBody[];
}

/** An item of a batch. */
export interface NamedItemBody {
  /** what it is among: new items start from what is known of their group */
  group: string;
  state?: "shown" | "hidden";
  /**
   * what is known of it, for models that were trained with such features; all that there
   * are, or null to keep those that the service has
   */
  features?: Record<string, number | boolean | string | number[] | string[] | null> | null;
  id: string | number;
}

/** Items in the order of their utility to a user; the answer is not kept. */
export interface RankAnswer {
  user_id: string | null;
  /** best first */
  items: RankedItem[];
  /** items sent that are not on offer, or not known */
  left_out: string[];
  /** the arm of the experiment that the user is in, whose model ordered them */
  arm: string;
  model: string;
  version: string;
  /** clicks on items that the model does not know: they had no influence */
  unknown: string[];
  /** what else to know, for instance that the history could not be read */
  notes: string[];
}

/** Items to order, and for whom. */
export interface RankBody {
  /** the items to order, such as the results of a search */
  items: (string | number)[];
  /** whose history to go by; without it, an anonymous user */
  user_id?: string | number | null;
  /**
   * items she clicked that the service has not heard of, oldest first, after her history;
   * the newest count, as many as the configuration says
   */
  clicks?: (string | number)[];
  /** how many to return, the best; all without it */
  k?: number | null;
  /** where the list is shown; without it, or if the model does not know it, the usual one */
  source?: string | null;
}

/** An item in its order. */
export interface RankedItem {
  id: string;
  group: string;
  /** in closed form: what the order is by */
  utility: number;
  /** that a click on one of the items sent falls on this one, wherever it stands */
  probability: number;
}

/** A slate, and how it came about. */
export interface RecommendAnswer {
  /** to be sent back with what became of the slate */
  slate_id: string;
  user_id: string | null;
  /** in the order in which to show them */
  items: SlateItem[];
  /** the arm of the experiment that the user is in */
  arm: string;
  model: string;
  version: string;
  strategy: string;
  seed: number;
  source: string;
  /** clicks on items that the model does not know: they had no influence */
  unknown: string[];
  /** what else to know, for instance that the history could not be read */
  notes: string[];
}

/** Whom a slate is for, and what may be in it. */
export interface RecommendBody {
  /** whose history to go by; without it, an anonymous user */
  user_id?: string | number | null;
  /**
   * items she clicked that the service has not heard of, oldest first, after her history;
   * the newest count, as many as the configuration says
   */
  clicks?: (string | number)[];
  /** how many items; the configuration has the usual and the largest number */
  k?: number | null;
  /** items not to show */
  exclude?: (string | number)[];
  /** the only items to show, if given */
  allow?: (string | number)[] | null;
  /** most items of each group: one number for all, or numbers by name */
  groups?: number | Record<string, number> | null;
  /** whether items she clicked before may be shown again */
  clicked?: "exclude" | "show";
  /**
   * where the slate will be shown, and what it is called in the log; the configuration has
   * the usual name, and a model that does not know it yet takes that of most slates
   */
  source?: string | null;
  /** seed of everything random; drawn and returned if not given */
  seed?: number | null;
}

/** An item of a slate. */
export interface SlateItem {
  id: string;
  group: string;
  /** the mean of the posterior: higher is more likely to be clicked */
  relevance: number | null;
  /** its standard deviation */
  uncertainty: number | null;
}

/** The newest slates of a user, oldest first. */
export interface UserAnswer {
  user_id: string;
  visits: VisitAnswer[];
}

/** A slate that was made for a user, and what she did. */
export interface VisitAnswer {
  slate_id: string;
  time: string;
  source: string;
  items: string[];
  /** whether anything was heard of it: only then does it count as shown */
  answered: boolean;
  /** how many of the items, from the first; null if nothing was heard */
  seen: number | null;
  clicked: string[];
  /** the arm that made it; null for a slate that others made */
  arm: string | null;
}
