// A topology as Kafka Streams prints it, as the steps that a record goes: from the topics to what is written.
interface Step {
  name: string;
  more: string;
}

const SOURCE = "topic, read";

const steps = (topology: string): Step[] =>
  topology
    .split("\n")
    .map((line) => /^\s+(Source|Processor|Sink): (\S+) \((topics?|stores): \[?([^\])]*)\]?\)/.exec(line))
    .filter((found) => found !== null)
    .map(([, kind, name = "", , where = ""]) => {
      if (kind === "Source") return { name: where, more: SOURCE };
      if (kind === "Sink") return where === "EXPLAIN" ? { name: "result", more: "to who asks" } : { name: where, more: "topic, written" };
      const words = name.replace(/^[CI][ST]?AS?_.*?-|-?\d{10}$/g, "").replace(/^K(STREAM|TABLE)-/, "");
      return { name: words.toLowerCase().replaceAll("-", " "), more: where ? `keeps ${where}` : "" };
    });

export function Topology({ text }: { text: string }) {
  return (
    <ol class="plan">
      {steps(text).map((each, index) => (
        <li key={index} class={index > 0 && each.more === SOURCE ? "apart" : ""}>
          <b class="clip" title={each.name}>
            {each.name}
          </b>
          {each.more && (
            <span class="dim clip" title={each.more}>
              {each.more}
            </span>
          )}
        </li>
      ))}
    </ol>
  );
}
