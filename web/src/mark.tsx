export const Mark = () => (
  <svg viewBox="0 0 24 24" aria-hidden="true">
    <path d="M2.500 8.500h19" stroke="var(--accent)" stroke-width="2.600" stroke-linecap="round" />
    <path d="M8 3.500v13.200c0 2.400 1 3.600 3 3.600M15 3.500v13.200c0 2.400 1 3.600 3 3.600" fill="none" stroke="currentColor" stroke-width="2.600" stroke-linecap="round" />
  </svg>
);
