// The pages of the side, and of the palette.
export const SECTIONS: { group: string; pages: { name: string; icon: string; path: string }[] }[] = [
  { group: "", pages: [{ name: "Overview", icon: "overview", path: "" }] },
  {
    group: "Data",
    pages: [
      { name: "Topics", icon: "topics", path: "/topics" },
      { name: "Schemas", icon: "schemas", path: "/schemas" },
      { name: "Replays", icon: "replays", path: "/replays" },
      { name: "Lineage", icon: "lineage", path: "/lineage" },
    ],
  },
  {
    group: "Consuming",
    pages: [
      { name: "Groups", icon: "groups", path: "/groups" },
      { name: "Dead letters", icon: "letters", path: "/dlq" },
      { name: "Alerts", icon: "alerts", path: "/alerts" },
    ],
  },
  {
    group: "Pipeline",
    pages: [
      { name: "Connect", icon: "connect", path: "/connect" },
      { name: "Streams", icon: "streams", path: "/streams" },
      { name: "SQL", icon: "sql", path: "/sql" },
      { name: "Transactions", icon: "transactions", path: "/transactions" },
    ],
  },
  {
    group: "Cluster",
    pages: [
      { name: "Brokers", icon: "brokers", path: "/brokers" },
      { name: "Quorum", icon: "quorum", path: "/quorum" },
      { name: "Reassignment", icon: "reassign", path: "/reassign" },
      { name: "Cost", icon: "cost", path: "/cost" },
      { name: "Access", icon: "access", path: "/access" },
      { name: "Changes", icon: "audit", path: "/audit" },
    ],
  },
];
